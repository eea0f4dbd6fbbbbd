"""A Cinder backend that keeps volumes as sparse files. The iSCSI side, targets and CHAP, is Cinder's own TgtAdm, unmodified."""
import os
import shutil

from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import importutils
from oslo_utils import units

from cinder import interface
from cinder.volume import configuration
from cinder.volume import driver

LOG = logging.getLogger(__name__)
OPTS = [cfg.StrOpt('sparse_dir', help='Directory holding the sparse files'),
        cfg.StrOpt('sparse_discovery_auth', secret=True,
                   help='"user password": CHAP for iSCSI discovery')]
cfg.CONF.register_opts(OPTS, group=configuration.SHARED_CONF_GROUP)


@interface.volumedriver
class SparseVolumes(driver.VolumeDriver):
    VERSION = '1.0.0'
    CI_WIKI_NAME = 'none'

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.configuration.append_config_values(OPTS)
        self.target_driver = importutils.import_object(
            'cinder.volume.targets.tgt.TgtAdm',
            configuration=self.configuration, db=self.db,
            executor=self._execute)
        self.protocol = self.target_driver.protocol

    @staticmethod
    def get_driver_options():
        return OPTS

    def do_setup(self, context):
        os.makedirs(self.configuration.sparse_dir, exist_ok=True)
        if self.configuration.sparse_discovery_auth:
            user, pw = self.configuration.sparse_discovery_auth.split()
            acct = ('tgtadm', '--mode', 'account', '--user', user, '--op')
            self._execute(*acct, 'new', '--password', pw,
                          check_exit_code=False)   # may exist
            self._execute(*acct, 'bind', check_exit_code=False)

    def check_for_setup_error(self):
        self._execute('tgtadm', '--lld', 'iscsi', '--op', 'show',
                      '--mode', 'target')

    def local_path(self, volume):
        return os.path.join(self.configuration.sparse_dir, volume['name'])

    # -- data plane -------------------------------------------------------
    def _truncate(self, path, size_gb):
        self._execute('truncate', '-s', '%dG' % size_gb, path)

    def _copy(self, src, dst, size_gb=None):
        self._execute('cp', '--sparse=always', '--reflink=auto', src, dst)
        if size_gb:
            self._truncate(dst, size_gb)

    def create_volume(self, volume):
        self._truncate(self.local_path(volume), volume['size'])

    def delete_volume(self, volume):
        try:
            os.unlink(self.local_path(volume))
        except FileNotFoundError:
            LOG.warning('%s already gone', volume['name'])

    def extend_volume(self, volume, new_size):
        self._truncate(self.local_path(volume), new_size)
        self.target_driver.extend_target(volume)

    def create_cloned_volume(self, volume, src_vref):
        self._copy(self.local_path(src_vref), self.local_path(volume),
                   volume['size'])

    def create_snapshot(self, snapshot):
        self._copy(self.local_path(snapshot.volume),
                   self.local_path(snapshot))

    def delete_snapshot(self, snapshot):
        self.delete_volume(snapshot)

    def create_volume_from_snapshot(self, volume, snapshot):
        self._copy(self.local_path(snapshot), self.local_path(volume),
                   volume['size'])

    def revert_to_snapshot(self, context, volume, snapshot):
        self._copy(self.local_path(snapshot), self.local_path(volume))

    # -- control plane: all of it is TgtAdm's -------------------------------
    def ensure_export(self, context, volume):
        self.target_driver.ensure_export(context, volume,
                                         self.local_path(volume))

    def create_export(self, context, volume, connector):
        info = self.target_driver.create_export(context, volume,
                                                self.local_path(volume))
        return {'provider_location': info['location'],
                'provider_auth': info['auth']}

    def remove_export(self, context, volume):
        self.target_driver.remove_export(context, volume)

    def validate_connector(self, connector):
        return self.target_driver.validate_connector(connector)

    def initialize_connection(self, volume, connector):
        info = self.target_driver.initialize_connection(volume, connector)
        if self.configuration.sparse_discovery_auth:
            info['data'].update(zip(
                ('discovery_auth_method', 'discovery_auth_username',
                 'discovery_auth_password'),
                ['CHAP'] + self.configuration.sparse_discovery_auth.split()))
        return info

    def terminate_connection(self, volume, connector, **kwargs):
        self.target_driver.terminate_connection(volume, connector, **kwargs)
        # True tells the manager that others still use the export.
        return len(volume.volume_attachment) > 1

    def _update_volume_stats(self):
        st = shutil.disk_usage(self.configuration.sparse_dir)
        name = self.configuration.safe_get('volume_backend_name')
        used = sum(os.stat(e.path).st_size
                   for e in os.scandir(self.configuration.sparse_dir))
        self._stats = {
            'volume_backend_name': name, 'vendor_name': 'Open Source',
            'driver_version': self.VERSION, 'storage_protocol': self.protocol,
            'shared_targets': False,
            'pools': [{
                'pool_name': name,
                'total_capacity_gb': round(st.total / units.Gi, 2),
                'free_capacity_gb': round(st.free / units.Gi, 2),
                'provisioned_capacity_gb': round(used / units.Gi, 2),
                'max_over_subscription_ratio': '20.0',
                'reserved_percentage': 0, 'thin_provisioning_support': True,
                'thick_provisioning_support': False, 'QoS_support': False,
                'multiattach': True, 'online_extend_support': True,
                'backend_state': 'up',
                'filter_function': self.get_filter_function(),
                'goodness_function': self.get_goodness_function()}]}

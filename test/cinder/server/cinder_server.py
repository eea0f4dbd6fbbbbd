#!/usr/bin/python3
"""Cinder's API, scheduler and volume services in one eventlet process.

cinder_server.py --config-file cinder.conf

transport_url must be fake://, since there is no broker, and the process must be root, since privileged code runs in it.
"""
import eventlet
eventlet.monkey_patch()
import __original_module_threading as orig_threading
import threading
orig_threading.current_thread.__globals__['_active'] = threading._active

import sys

from oslo_config import cfg
from oslo_log import log as logging

from cinder import i18n
i18n.enable_lazy()
from cinder.common import config  # registers the global options
from cinder import context, coordination, exception, objects, rpc, service, version
from cinder.db import migration
from cinder.objects import cleanable
from cinder.volume import volume_types
from cinder.volume import volume_utils
import cinder.privsep
import os_brick
from os_brick import privileged

CONF = cfg.CONF

# Types that tests need beside the default one. No backend is called "nowhere": its volumes end in "error".
TYPES = {
    'multiattach': {'multiattach': '<is> True'},
    'nowhere': {'volume_backend_name': 'nowhere'},
}


def main():
    objects.register_all()
    CONF(sys.argv[1:], project='cinder', version=version.version_string())
    config.set_middleware_defaults()
    logging.setup(CONF, 'cinder')
    cinder.privsep.sys_admin_pctxt.set_client_mode(False)
    privileged.default.set_client_mode(False)
    os_brick.setup(CONF)
    migration.db_sync()
    coordination.COORDINATOR.start()
    carry_json()
    rpc.init(CONF)
    serve()


def serve():
    scheduler = service.Service.create(binary='cinder-scheduler')
    volumes = [service.Service.create(host='%s@%s' % (CONF.host, b), service_name=b, binary='cinder-volume', coordination=False)
               for b in CONF.enabled_backends]
    for s in [scheduler] + volumes:
        pin(s)
    attribute(scheduler, volumes)
    # The scheduler's start sleeps until a volume service has reported.
    starting = eventlet.spawn(scheduler.start)
    eventlet.sleep(0)
    for s in volumes:
        s.start()
    api = service.WSGIService('osapi_volume')
    starting.wait()
    create_types()
    api.start()
    # wait() of the service itself waits only for requests in flight.
    api.server._server.wait()


def create_types():
    types = dict(TYPES)
    if len(CONF.enabled_backends) > 1:
        types.update((b, {'volume_backend_name': b}) for b in CONF.enabled_backends)
    for name, specs in types.items():
        try:
            volume_types.create(context.get_admin_context(), name, specs)
        except exception.VolumeTypeExists:
            pass


def carry_json():
    """fake:// hands Python objects over by reference where a broker carries JSON; get_pools, for one, fails without."""
    from oslo_messaging._drivers import impl_fake
    from oslo_serialization import jsonutils
    send, reply = impl_fake.FakeDriver._send, impl_fake.FakeIncomingMessage.reply

    def trip(x):
        return jsonutils.loads(jsonutils.dumps(x))

    impl_fake.FakeDriver._send = lambda self, target, ctxt, message, *a, **kw: send(
        self, target, trip(ctxt), trip(message), *a, **kw)
    impl_fake.FakeIncomingMessage.reply = lambda self, r=None, failure=None: reply(self, trip(r), failure)


def pin(s):
    """Service.service_id is the class's: of several services in a process only the last would report."""
    report = s.report_state

    def pinned():
        service.Service.service_id = s.origin_service_id
        report()
    s.report_state = pinned


def attribute(scheduler, volumes):
    """The record of what is under way names the service that goes on with it after a crash, by the same attribute of the
    class: it is the volume service of the volume's host, or the scheduler while the volume has none."""
    owners = {s.host: s for s in volumes}
    set_worker = cleanable.CinderCleanableObject.set_worker

    def attributed(self):
        host = self.host and volume_utils.extract_host(self.host)
        service.Service.service_id = owners.get(host, scheduler).origin_service_id
        set_worker(self)
    cleanable.CinderCleanableObject.set_worker = attributed


if __name__ == '__main__':
    main()

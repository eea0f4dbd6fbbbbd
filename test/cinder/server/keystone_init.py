#!/usr/bin/python3
"""keystone_init.py CONF URL: a fork each for db_sync, key set-up and bootstrap, with one import of Keystone, which takes a second.

ADMIN_PASSWORD is in the environment.
"""
import os
import sys

from keystone.cmd import cli
import keystone.server.flask.core  # noqa: F401

conf, url = sys.argv[1:3]
user = ['--keystone-user', 'root', '--keystone-group', 'root']
for command in (['db_sync'], ['fernet_setup'] + user, ['credential_setup'] + user,
                ['bootstrap', '--bootstrap-password', os.environ['ADMIN_PASSWORD'], '--bootstrap-region-id', 'RegionOne',
                 '--bootstrap-public-url', url, '--bootstrap-internal-url', url, '--bootstrap-admin-url', url]):
    pid = os.fork()
    if not pid:
        cli.main(argv=['keystone-manage', '--config-file', conf] + command)
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        raise SystemExit('keystone-manage %s failed' % command[0])

#!/usr/bin/python3
"""keystone_seed.py KEYSTONE PUBLIC INTERNAL: Cinder's user, its catalogue entries, and a project "demo" with a member "demo".

KEYSTONE is Keystone's URL with /v3, the others are Cinder's without. ADMIN_PASSWORD, CINDER_PASSWORD and DEMO_PASSWORD are in
the environment. Prints the project's id and an application credential of demo's, as lines KEY=value.
"""
import json
import os
import sys
import urllib.error
import urllib.request

KEYSTONE, PUBLIC, INTERNAL = sys.argv[1:4]


class Client:
    def __init__(self, user, password, project):
        self.token = None
        domain = {'id': 'default'}
        body, headers = self.call('POST', '/auth/tokens', {'auth': {
            'identity': {'methods': ['password'], 'password': {'user': {'name': user, 'domain': domain, 'password': password}}},
            'scope': {'project': {'name': project, 'domain': domain}}}})
        self.token, self.user = headers['X-Subject-Token'], body['token']['user']['id']

    def call(self, method, path, body=None):
        headers = {'Content-Type': 'application/json'}
        if self.token:
            headers['X-Auth-Token'] = self.token
        r = urllib.request.Request(KEYSTONE + path, method=method, data=body and json.dumps(body).encode(), headers=headers)
        try:
            with urllib.request.urlopen(r) as f:
                raw = f.read()
                return (json.loads(raw) if raw else {}), f.headers
        except urllib.error.HTTPError as e:
            raise SystemExit('%s %s: %s %s' % (method, path, e.code, e.read().decode()))

    def make(self, kind, **body):
        return self.call('POST', '/%ss' % kind, {kind: body})[0][kind]['id']

    def find(self, kind, name):
        return self.call('GET', '/%ss?name=%s' % (kind, name))[0][kind + 's'][0]['id']


def main():
    env = os.environ
    admin = Client('admin', env['ADMIN_PASSWORD'], 'admin')
    for user, project, role in (('cinder', 'service', 'admin'), ('demo', 'demo', 'member')):
        p = admin.make('project', name=project, domain_id='default')
        u = admin.make('user', name=user, password=env[user.upper() + '_PASSWORD'], domain_id='default')
        admin.call('PUT', '/projects/%s/users/%s/roles/%s' % (p, u, admin.find('role', role)))
    for kind, name in (('volumev3', 'cinderv3'), ('block-storage', 'cinder')):
        s = admin.make('service', type=kind, name=name)
        for interface, url in (('public', PUBLIC), ('internal', INTERNAL)):
            admin.make('endpoint', service_id=s, interface=interface, region_id='RegionOne', url=url + '/v3/$(project_id)s')
    demo = Client('demo', env['DEMO_PASSWORD'], 'demo')
    made = demo.call('POST', '/users/%s/application_credentials' % demo.user, {'application_credential': {'name': 'provisioner'}})
    made = made[0]['application_credential']
    print('CINDER_PROJECT=%s\nAPPCRED_ID=%s\nAPPCRED_SECRET=%s' % (p, made['id'], made['secret']))


main()

#!/usr/bin/python3
"""keystone_server.py HOST PORT --config-file CONF: Keystone's WSGI application on a server with a thread a request."""
import socketserver
import sys
import wsgiref.simple_server as simple

host, port, args = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
from keystone.server.flask.core import initialize_application
sys.argv[1:] = []
app = initialize_application(name='public', config_files=[args[1]])


class Server(socketserver.ThreadingMixIn, simple.WSGIServer):
    daemon_threads = True
    request_queue_size = 64

    def server_bind(self):  # without looking up the host's name
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = host, port
        self.setup_environ()


class Handler(simple.WSGIRequestHandler):
    protocol_version = 'HTTP/1.1'

    def address_string(self):
        return self.client_address[0]

    def log_message(self, *a):
        pass


simple.make_server(host, port, app, Server, Handler).serve_forever()

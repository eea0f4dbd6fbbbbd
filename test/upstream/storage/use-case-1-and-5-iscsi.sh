# shellcheck shell=bash
# The machine with tgtd is node1, and all nodes may log in.
up() { tgtd_up; }
down() { tgtd_down; }
edit() { sed 's#node-selector: kubernetes.io/os=linux#node-selector: kubernetes.io/hostname=node1#; s/initiators: 10.99.0.1$/initiators: ALL/'; }

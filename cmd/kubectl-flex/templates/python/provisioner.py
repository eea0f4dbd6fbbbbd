#!/usr/bin/env python3
"""Makes, removes, expands and lists directories of an NFS export, one for each claim of the class {{.Name}}. Put your storage in
their place.

Properties: server and export, as nodes mount it; mount, where this pod has the export, /export if not given.
"""
import json
import os
import shutil
import signal
import subprocess
import sys


def flexctl(*arguments):
    """Runs flexctl. What it fails with is this program's end: it has told the user, and its exit code means something."""
    code = subprocess.run(["flexctl", *arguments]).returncode
    if code != 0:
        sys.exit(code)


def fail(message, *how):
    """Ends the attempt with a message for the claim's owner; how is --refuse, --not-here or --try-again."""
    flexctl("fail", *how, "--", message)


def provision(request, directory):
    """May be killed anywhere and run again, so that every step may find itself done."""
    os.makedirs(directory, exist_ok=True)
    os.chmod(directory, 0o777)  # whatever the umask says
    properties = request["properties"]
    # Last, since the claim is bound by it.
    flexctl("create-pv", "--nfs", f'{properties["server"]}:{properties["export"]}/{request["volumeName"]}')


def delete(directory):
    """Takes the name for the proof that it is ours. What is gone already is success."""
    if os.path.lexists(directory):
        shutil.rmtree(directory)


def expand(directory):
    """Has nothing to do: a directory has no size of its own. That it is here is all there is to say."""
    if not os.path.isdir(directory):
        fail(f"{directory} is not there; is the export mounted?", "--try-again")


def list_storage(request, mount):
    """Prints what there is, for the audit: a name, and how a person would remove it."""
    properties = request["properties"]
    for name in sorted(os.listdir(mount)):
        if name.startswith("pvc-"):
            print(f'storage {name} ssh {properties["server"]} rm -rf -- {properties["export"]}/{name}')


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main():
    signal.signal(signal.SIGTERM, lambda *_: fail("the attempt was told to end"))
    flexctl("require", "server", "export")
    request = json.loads(output("flexctl", "request"))
    mount = request["properties"].get("mount", "/export")
    if not os.path.isdir(mount):
        fail(f"the export is not mounted at {mount}", "--try-again")
    # Away is not gone: the mark tells the export from an empty mount point, and from another one. To provision, it is made.
    flexctl("require", "--mark", os.path.join(mount, ".{{.Name}}"))
    # The one name by which the next attempt, and the delete, find it again; empty for list.
    directory = os.path.join(mount, request["volumeName"])
    operation = request["operation"]
    try:
        if operation == "provision":
            provision(request, directory)
        elif operation == "delete":
            delete(directory)
        elif operation == "expand":
            expand(directory)
        elif operation == "list":
            list_storage(request, mount)
        else:
            fail(f"operation {operation} is not known", "--refuse")
    except OSError as error:
        fail(str(error))


if __name__ == "__main__":
    main()

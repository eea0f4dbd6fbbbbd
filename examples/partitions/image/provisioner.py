"""Partitions of one disk of a node as volumes, by sfdisk and partx.

The disk is a raw block claim, at /dev/disk. Its GPT is the record: a partition has the claim's UID as its own, and the
name "flex" once it has been wiped, which is before a claim sees it. Property disk: the identifier of the table, by which
this disk is told from any other.

Reading a table takes the device. Telling the kernel of a partition takes CAP_SYS_ADMIN.
"""
import fcntl
import json
import os
import re
import signal
import ssl
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request

DISK, LOCK, MIB = "/dev/disk", "/var/lib/flex-partitions", 1 << 20
FAILED, REFUSED, TRY_AGAIN = 1, 64, 75
NEW, WIPED = "flex-new", "flex"
MOST = 128  # partitions of a table, as everybody makes them
BLKZEROOUT = 0x127F


def end(code, message):
    """Ends the attempt with a message for the claim's owner."""
    print(message, file=sys.stderr)
    with open("/dev/termination-log", "w", encoding="utf-8") as log:
        log.write(message)
    sys.exit(code)


def run(code, *command, text=None):
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        end(code, f"{command[0]} failed: {' '.join(done.stderr.split())}")
    return done.stdout


class Table:
    """The disk's GPT as it is on the disk."""

    def __init__(self, code):
        found = json.loads(run(code, "sfdisk", "--json", DISK))["partitiontable"]
        if found["label"] != "gpt" or found["id"].lower() != os.environ["DISK"].lower():
            end(code, f"the disk has the table {found['label']} {found['id']}, and the class says gpt {os.environ['DISK']}")
        self.sector = found.get("sectorsize", 512)
        self.first, self.last = found["firstlba"], found["lastlba"]
        self.partitions = found.get("partitions", [])
        for p in self.partitions:
            p["number"] = int(re.search(r"\d+$", p["node"]).group())

    def find(self, uid):
        return next((p for p in self.partitions if p["uuid"].lower() == uid.lower()), None)

    def room(self, sectors):
        """The first start of so many free sectors, at a whole MiB, or None."""
        grain = MIB // self.sector
        start = self.first
        for p in sorted(self.partitions, key=lambda p: p["start"]) + [{"start": self.last + 1, "size": 0}]:
            start = -(-start // grain) * grain
            if start + sectors <= p["start"]:
                return start
            start = max(start, p["start"] + p["size"])
        return None

    def unused(self):
        taken = {p["number"] for p in self.partitions}
        return next((n for n in range(1, MOST + 1) if n not in taken), None)


def change(*arguments, text=None):
    """Changes the table. The kernel is told afterwards, of one partition, since others are in use."""
    run(FAILED, "sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", "--wipe=never", "--wipe-partitions=never", *arguments, text=text)


def known(number):
    """Start and size of a partition as the kernel knows it, in units of 512 bytes, or None."""
    device = os.stat(DISK).st_rdev
    parent = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    for name in os.listdir(parent):
        try:
            if int(read(f"{parent}/{name}/partition")) == number:
                return int(read(f"{parent}/{name}/start")), int(read(f"{parent}/{name}/size"))
        except (FileNotFoundError, NotADirectoryError):
            continue
    return None


def read(name):
    with open(name, encoding="utf-8") as file:
        return file.read()


def wipe(start, size):
    """Writes zeros, or has the disk do it. In pieces, so that SIGTERM is heard."""
    disk = os.open(DISK, os.O_WRONLY)
    while size > 0:
        piece = min(size, 256 * MIB)
        fcntl.ioctl(disk, BLKZEROOUT, struct.pack("QQ", start, piece))
        start, size = start + piece, size - piece
    os.fsync(disk)
    os.close(disk)


def provision(uid, size):
    table = Table(REFUSED)
    if table.find(uid) is None:
        sectors = max(1, -(-size // MIB)) * MIB // table.sector
        start, number = table.room(sectors), table.unused()
        if start is None or number is None:
            end(FAILED, f"the disk has no room for {sectors * table.sector // MIB} MiB in one piece")
        change("-N", str(number), DISK, text=f"start={start}, size={sectors}, uuid={uid}, name={NEW}\n")
        table = Table(FAILED)
    partition = table.find(uid)
    number = partition["number"]
    start, length = partition["start"] * table.sector, partition["size"] * table.sector
    if partition.get("name") != WIPED:
        wipe(start, length)
        change("--part-label", DISK, str(number), WIPED)
    if known(number) is None:
        run(FAILED, "partx", "--add", "--nr", f"{number}:{number}", DISK)
    if known(number) != (start // 512, length // 512):
        end(FAILED, f"the kernel has another partition {number} than the disk; restart the node")
    create(uid)


class Refused(urllib.request.HTTPRedirectHandler):
    """The token is for the API server alone, and for nobody that an answer names."""

    def redirect_request(self, *_):
        return None


def message(error):
    try:
        return json.load(error)["message"]
    except (ValueError, KeyError, TypeError):
        return str(error)


def create(uid):
    """Creates the PersistentVolume: what was prepared for it, and its source."""
    name = f"/dev/disk/by-partuuid/{uid}"  # udev's, whatever the disk is called
    node = json.dumps(os.environ["FLEX_NODE"])
    volume = read("/etc/flex-provisioner/volume.yaml") + f"""  local: {{path: {name}}}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions:
        - {{key: kubernetes.io/hostname, operator: In, values: [{node}]}}
"""
    folder = "/var/run/secrets/kubernetes.io/serviceaccount"
    trusted = ssl.create_default_context(cafile=f"{folder}/ca.crt")
    # Without a proxy of the environment.
    server = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trusted), Refused)
    for pause in (1, 2, 4, 0):
        request = urllib.request.Request(
            os.environ["FLEX_KUBE_API"] + "/api/v1/persistentvolumes", volume.encode(), method="POST",
            headers={"Content-Type": "application/yaml", "Authorization": "Bearer " + read(f"{folder}/token").strip()})
        try:
            server.open(request, timeout=20).close()
            return
        except urllib.error.HTTPError as error:
            if error.code == 409:  # an earlier attempt made it
                return
            if error.code < 500 and error.code != 429:
                end(FAILED, message(error))
            problem = str(error)
        except OSError as error:
            problem = str(error)
        time.sleep(pause)
    end(TRY_AGAIN, f"the API server does not take the volume: {problem}")


def delete(uid):
    """Without a table that is ours nothing is known, least of all that the partition is gone."""
    partition = Table(TRY_AGAIN).find(uid)
    if partition is None:
        return
    number = partition["number"]
    if known(number) is not None:
        run(TRY_AGAIN, "partx", "--delete", "--nr", f"{number}:{number}", DISK)  # fails where it is in use
    change("--delete", DISK, str(number))


def main():
    signal.signal(signal.SIGTERM, lambda *_: end(FAILED, "the attempt was told to end"))
    if not os.environ.get("DISK"):
        end(REFUSED, 'property "disk" is missing: the identifier of the partition table')
    lock = os.open(LOCK, os.O_RDONLY)
    fcntl.flock(lock, fcntl.LOCK_EX)  # two that write a table at once lose a partition; it ends with this process
    uid, operation = os.environ["FLEX_PVC_UID"], os.environ["FLEX_OPERATION"]
    if not re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", uid):
        end(REFUSED, f"{uid!r} is no UID")
    if operation == "provision":
        provision(uid, int(os.environ["FLEX_SIZE_BYTES"]))
    elif operation == "delete":
        delete(uid)
    else:
        end(REFUSED, f"operation {operation} is not known")


if __name__ == "__main__":
    main()

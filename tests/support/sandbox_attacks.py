"""Programs that mean harm, and what must be true of the host after each. No test: `tests/sandboxes/test_attacks.py` is.

A program prints ESCAPED when it got what it must not have. Beside that the host looks for itself: at its planted file,
its listeners, its processes, its clock. Run as a program for another user: `python tests/support/sandbox_attacks.py local`.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import sandboxes
from sandboxes import Limits, Sandbox, SandboxError, Status

SECRET = "planted-secret-8d41f0"
MARK = "sandbox-attack-mark"  # in the command line of what an attack leaves behind
LIMITS = Limits(cpu_s=20, memory_mb=160, processes=32, disk_mb=16, files=500, output_kb=128)
TIMEOUT_S, GRACE_S = 1.5, 1.0


class Attack(NamedTuple):
    """`program` may use {port}, {udp}, {abstract}, {secret_file}, {decoy}, {mark} and {host}."""

    program: str
    ends: tuple[Status, ...] = tuple(set(Status) - {Status.ENDED, Status.GARBLED})
    fetch: tuple[str, ...] = ()


def own(*statuses: Status) -> tuple[Status, ...]:
    return statuses


STOPPED = own(Status.TIMEOUT)
CROWDED = own(Status.TIMEOUT, Status.MEMORY_LIMIT)  # as many processes as are allowed, each with some memory
TRY = """
import os, socket, sys, ctypes, signal, time
libc = ctypes.CDLL(None, use_errno=True)
def tries(*acts):
    for act in acts:
        try:
            got = act()
        except BaseException:
            continue
        if got not in (None, False, -1, b"", ""):
            print("ESCAPED", got)
"""

ATTACKS = {
    # more than there is
    "fork bomb": Attack("import os\nwhile True:\n    try: os.fork()\n    except OSError: pass", CROWDED),
    "fork bomb of sessions": Attack(
        "import os\nwhile True:\n    try:\n        if os.fork() == 0: os.setsid()\n    except OSError: pass", CROWDED
    ),
    "hopping pids": Attack(
        "import os\nif os.fork():\n    os._exit(0)\nwhile True:\n    try:\n        if os.fork(): os._exit(0)\n    except OSError: pass"
    ),
    "thread bomb": Attack(
        "import threading, time\nwhile True:\n    try: threading.Thread(target=time.sleep, args=(99,), daemon=True).start()\n    except RuntimeError: pass",
        STOPPED,
    ),
    "one large block": Attack(
        "x = bytearray(b'x' * (10 << 30))", own(Status.FAILED, Status.MEMORY_LIMIT, Status.TIMEOUT)
    ),
    "many small blocks": Attack(
        "x = []\nwhile True: x.append(bytes([7]) * 65536)", own(Status.FAILED, Status.MEMORY_LIMIT, Status.TIMEOUT)
    ),
    "memory of children": Attack(
        "import os, time\nfor _ in range(16):\n    if os.fork() == 0:\n        x = bytearray(b'x' * (60 << 20)); time.sleep(9)\nif os.getpid(): time.sleep(9)"
    ),
    "memory without a name": Attack(
        "import os\nx = []\nwhile True:\n    x.append(os.memfd_create('x')); os.write(x[-1], b'x' * (1 << 20))"
    ),
    "shared memory of children": Attack(
        "import mmap, os\nx = []\nwhile True:\n    m = mmap.mmap(-1, 8 << 20); m.write(b'x' * (8 << 20)); x.append(m)\n    os.fork() if len(x) < 3 else 0"
    ),
    "pipes": Attack(
        "import fcntl, os\nfor _ in range(9999):\n    r, w = os.pipe(); os.set_blocking(w, False)\n    try: fcntl.fcntl(w, 1031, 1 << 20)\n    except OSError: pass\n    try:\n        while True: os.write(w, b'x' * 65536)\n    except BlockingIOError: pass"
    ),
    "sockets": Attack(
        "import socket\nx = []\nwhile True:\n    a, b = socket.socketpair(); a.setblocking(False); x += [a, b]\n    try:\n        while True: a.send(b'x' * 65536)\n    except BlockingIOError: pass"
    ),
    "disk": Attack(
        "for d in ('.', '/tmp', '/dev/shm', '/var/tmp', '/box'):\n    try:\n        with open(d + '/x', 'wb', 0) as f:\n            while f.tell() < 1 << 28: f.write(b'x' * (1 << 20))\n        print('ESCAPED', d)\n    except OSError: pass"
    ),
    "number of files": Attack(
        "for n in range(100000):\n    try: open(f'x{n}', 'w').close()\n    except OSError: break\nelse: print('ESCAPED')"
    ),
    "deep folders": Attack("import os\nwhile True:\n    os.mkdir('d' * 200); os.chdir('d' * 200)", own(Status.FAILED)),
    "a sparse file": Attack(
        "import os\nf = os.open('x', os.O_CREAT | os.O_RDWR)\nos.ftruncate(f, 1 << 45)", fetch=("x",)
    ),
    "a zip bomb": Attack(
        "import zlib\nc = zlib.compress(b'0' * (64 << 20))\nx = b''\nwhile True: x += zlib.decompress(c)"
    ),
    "a huge power": Attack("import sys\nsys.set_int_max_str_digits(0)\nprint(len(str(9 ** 9 ** 9)))"),
    "endless recursion": Attack("import sys\nsys.setrecursionlimit(10 ** 9)\ndef f(): f()\nf()"),
    "an exponential pattern": Attack("import re; re.match('(a+)+$', 'a' * 60 + 'b')", STOPPED),
    # words without end
    "stdout": Attack("while True: print('x' * 10000)", own(Status.OUTPUT_LIMIT)),
    "stderr": Attack("import os\nwhile True: os.write(2, b'x' * 65536)", own(Status.OUTPUT_LIMIT)),
    "both by many": Attack(
        "import os\nos.fork(); os.fork()\nwhile True: os.write(1, b'x' * 65536); os.write(2, b'y' * 65536)",
        own(Status.OUTPUT_LIMIT),
    ),
    "shut and loop": Attack("import os\nos.close(0); os.close(1); os.close(2)\nwhile True: pass", STOPPED),
    "written from outside the program": Attack(
        "import subprocess\nsubprocess.run(['sh', '-c', 'yes'])", own(Status.OUTPUT_LIMIT)
    ),
    # time without end
    "sleep": Attack("import time\nwhile True: time.sleep(1e6)", STOPPED),
    "deaf to signals": Attack(
        "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: pass",
        STOPPED,
    ),
    "stopped": Attack("import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", STOPPED),
    "all stopped": Attack(
        "import os, signal\nif os.fork() == 0:\n    os.setsid()\n    os.kill(-1, signal.SIGSTOP)\nwhile True: pass",
        STOPPED,
    ),
    "another program": Attack("import os; os.execv('/bin/sh', ['sh', '-c', 'while :; do :; done'])", STOPPED),
    "a daemon": Attack(
        "import os\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        os.closerange(0, 99); os.execv('/bin/sh', ['{mark}', '-c', 'sleep 99; :'])\n    os._exit(0)\nos.wait()",
        own(Status.OK),
    ),
    "a daemon that holds stdout": Attack(
        "import os\nif os.fork() == 0:\n    os.setsid(); os.execv('/bin/sh', ['{mark}', '-c', 'sleep 99; :'])",
        own(Status.OK),
    ),
    "a daemon that is traced by none": Attack(
        "import os, signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nfor _ in range(9):\n    if os.fork() == 0:\n        os.setsid(); signal.pause()",
        own(Status.OK),
    ),
    "a vfork that never returns": Attack(
        "import subprocess\nsubprocess.Popen(['sh', '-c', 'kill -STOP $$']).wait()", STOPPED
    ),
    # others' processes
    "the parent": Attack(
        TRY
        + "p = os.getppid()\nfor n in (9, 19, 15, 2, 1, 10, 14): tries(lambda: os.kill(p, n)); tries(lambda: os.kill(1, n))\ntime.sleep(0.2)\nprint('on')"
    ),
    "everybody": Attack("import os, signal\nos.kill(-1, signal.SIGKILL)"),
    "a process by number": Attack(
        TRY + "for p in ({decoy}, {host}): tries(lambda: os.kill(p, 9) or True, lambda: os.kill(p, 0) or True)"
    ),
    "tracing": Attack(
        TRY
        + "for p in (1, os.getppid(), {decoy}, {host}):\n    tries(lambda: libc.ptrace(16, p, 0, 0) + 1, lambda: libc.ptrace(0x4206, p, 0, 0) + 1)"
    ),
    "memory of others": Attack(
        TRY
        + "for p in (1, os.getppid(), {decoy}, {host}): tries(lambda: os.open(f'/proc/{{p}}/mem', os.O_RDWR), lambda: os.open(f'/proc/{{p}}/mem', os.O_RDONLY))"
    ),
    "a walk of /proc": Attack(
        TRY
        + "seen = ''\nfor p in [n for n in os.listdir('/proc') if n.isdigit()] + ['{host}', '{decoy}', 'thread-self']:\n    for n in ('environ', 'cmdline', 'maps', 'cwd/secret', 'root{secret_file}', 'task/1/environ', 'fd/3', 'fd/4'):\n        tries(lambda: '{half}' in open(f'/proc/{{p}}/{{n}}', errors='replace').read().replace(sys.orig_argv[0], ''))"
    ),
    "limits of others": Attack(
        TRY
        + "import resource\nfor p in (1, os.getppid()):\n    if p == os.getpid(): continue\n    tries(lambda: resource.prlimit(p, resource.RLIMIT_NOFILE, (3, 3)), lambda: resource.prlimit(p, resource.RLIMIT_CPU, (1, 1)))\n    tries(lambda: os.sched_setaffinity(p, {{0}}) or True, lambda: os.sched_setscheduler(p, os.SCHED_IDLE, os.sched_param(0)) or True, lambda: os.setpriority(os.PRIO_PROCESS, p, 19) or True)\ntries(lambda: os.setpriority(os.PRIO_USER, 0, 19) or True)"
    ),
    "shelter from the killer": Attack(
        TRY
        + "tries(lambda: open('/proc/self/oom_score_adj', 'w').write('0'), lambda: open('/proc/1/oom_score_adj', 'w').write('999'))"
    ),
    # what is not its own
    "the environment": Attack(
        TRY + "tries(lambda: '{half}' in str(os.environ), lambda: libc.getenv(b'ATTACKED') or None)"
    ),
    "a planted file": Attack(
        TRY
        + "tries(lambda: open('{secret_file}').read(), lambda: os.stat('{secret_file}'), lambda: open('/proc/self/root{secret_file}').read(), lambda: os.listdir(os.path.dirname('{secret_file}')))"
    ),
    "upwards": Attack(TRY + "for n in range(1, 30): tries(lambda: open('../' * n + '{secret_file}').read())"),
    "a search of the disk": Attack(
        TRY
        + "for top in ('/tmp', '/root', '/home', '/var', '/etc', '/opt', '/run', '/srv', '/mnt', '/box', '/work'):\n    for d, _, names in os.walk(top):\n        tries(lambda: [n for n in names if n in ('shadow', 'secret', '.bash_history', 'id_rsa', 'pyproject.toml')] or None)"
    ),
    "passwords": Attack(
        TRY
        + "tries(lambda: open('/etc/shadow').read(), lambda: open('/etc/gshadow').read(), lambda: len(open('/etc/passwd').read().split()) > 9)"
    ),
    "the old root": Attack(
        TRY
        + "os.mkdir('r')\ntries(lambda: os.chroot('r') or True, lambda: libc.pivot_root(b'r', b'r') + 1)\nfor _ in range(9): os.chdir('..')\ntries(lambda: open('.{secret_file}').read())"
    ),
    "kept descriptors": Attack(
        TRY
        + 'for n in range(3, 1024):\n    tries(lambda: os.fstat(n), lambda: os.write(n, b\'{{"ended": 1, "code": 0, "why": null}}\'))'
    ),
    "frames and objects": Attack(
        TRY
        + "import gc\ntries(lambda: [o for o in gc.get_objects() if isinstance(o, str) and '{half}' in o] or None)\nf = sys._getframe()\nwhile f:\n    tries(lambda: '{half}' in repr(f.f_locals))\n    f = f.f_back",
        own(Status.OK),
    ),
    # the network
    "tcp to this machine": Attack(
        TRY
        + "tries(lambda: socket.create_connection(('127.0.0.1', {port}), 1), lambda: socket.create_connection(('::1', {port}), 1))"
    ),
    "tcp outward": Attack(
        TRY
        + "tries(lambda: socket.create_connection(('1.1.1.1', 53), 0.3), lambda: socket.getaddrinfo('example.org', 80))"
    ),
    "udp": Attack(
        TRY
        + "def f():\n    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); return s.sendto(b'x', ('127.0.0.1', {udp}))\ntries(f)"
    ),
    "other families": Attack(
        TRY
        + "for family, kind in ((17, 3), (16, 3), (38, 5), (40, 1), (31, 3), (29, 3), (44, 3), (2, 3), (10, 3)): tries(lambda: socket.socket(family, kind).fileno())"
    ),
    "abstract sockets": Attack(
        TRY
        + "def f():\n    s = socket.socket(socket.AF_UNIX); s.settimeout(1); s.connect({abstract!r}); return True\ntries(f)"
    ),
    "sockets with a name": Attack(
        TRY
        + "for p in ('/var/run/docker.sock', '/run/docker.sock', '/run/dbus/system_bus_socket', '{socket_file}'):\n    def f():\n        s = socket.socket(socket.AF_UNIX); s.settimeout(1); s.connect(p); return True\n    tries(f)"
    ),
    # links and names
    "links to fetch": Attack(
        "import os\nos.symlink('{secret_file}', 'a'); os.symlink('/', 'd'); os.symlink('/proc/self/root', 'e'); os.symlink('a', 'b')",
        own(Status.OK),
        ("a", "b", "d{secret_file}", "e{secret_file}"),
    ),
    "hard links": Attack(
        TRY + "tries(lambda: os.link('/etc/passwd', 'a') or True, lambda: os.link('{secret_file}', 'b') or True)",
        own(Status.OK),
        ("a", "b"),
    ),
    "a pipe to fetch": Attack("import os; os.mkfifo('a'); os.mkfifo('b')", own(Status.OK), ("a", "b")),
    "strange names": Attack(
        "import os\nfor n in ('-rf', '$(touch x)', 'a\\nb', '\\u202egpj', ' ', '..a', 'é' * 100, '\\udc80'):\n    os.makedirs(n); open(n + '/' + n, 'w').close()\nos.chmod('-rf', 0)",
        own(Status.OK),
        ("..a/..a", "-rf/-rf", "$(touch x)/x"),
    ),
    "a file that changes while it is fetched": Attack(
        "import os, threading\nif os.fork() == 0:\n    while True:\n        try: os.symlink('{secret_file}', 'y'); os.rename('y', 'a'); open('z', 'w').close(); os.rename('z', 'a')\n        except OSError: pass",
        own(Status.OK),
        ("a",),
    ),
    # doors of the kernel
    "user namespaces": Attack(
        TRY
        + "tries(lambda: libc.unshare(0x10000000) + 1, lambda: libc.unshare(0x10020000) + 1)\nimport platform\nif platform.machine() == 'x86_64': tries(lambda: libc.syscall(435, (ctypes.c_uint64 * 11)(0x10000000), 88) + 1, lambda: libc.syscall(56, 0x10000011, 0, 0, 0, 0) + 1)"
    ),
    "mounts": Attack(
        TRY
        + "os.mkdir('m')\ntries(lambda: libc.mount(b'tmpfs', b'm', b'tmpfs', 0, None) + 1, lambda: libc.mount(b'/', b'm', None, 4096, None) + 1, lambda: libc.umount2(b'/proc', 2) + 1, lambda: libc.umount2(b'/box', 2) + 1, lambda: libc.mount(b'', b'/', None, 32 | 4096, None) + 1, lambda: libc.syscall(430, b'tmpfs', 0) + 1, lambda: libc.syscall(428, -100, b'/', 1) + 1)"
    ),
    "namespaces of others": Attack(
        TRY
        + "for p in (1, os.getppid(), {host}):\n    for n in ('user', 'mnt', 'pid', 'net'):\n        def f():\n            d = os.open(f'/proc/{{p}}/ns/{{n}}', 0); return libc.setns(d, 0) + 1\n        tries(f)"
    ),
    "files by handle": Attack(
        TRY
        + "h = (ctypes.c_ubyte * 128)(8, 0, 0, 0, 1, 0, 0, 0, 2)\ntries(lambda: libc.open_by_handle_at(os.open('.', 0), h, 0) + 1, lambda: libc.name_to_handle_at(-100, b'.', h, ctypes.byref(ctypes.c_int()), 0) + 1)"
    ),
    "rare calls": Attack(
        TRY
        + "x = (ctypes.c_ubyte * 256)()\ntries(*[lambda n=n: libc.syscall(n, *((0, x, 0, 0, 0) if n != 425 else (4, x))) + 1 for n in (425, 321, 298, 323, 246, 175, 313, 169, 103, 308, 310, 248, 304, 165, 133, 159)]) if os.uname().machine == 'x86_64' else 0"
    ),
    "the old calls": Attack(
        TRY
        + "if os.uname().machine == 'x86_64':\n    code = ctypes.create_string_buffer(bytes.fromhex('b80b000000bb00000000cd80c3'))\n    import mmap\n    m = mmap.mmap(-1, 4096, prot=7); m.write(bytes.fromhex('b814000000cd80c3'))\n    f = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))\n    print('ESCAPED' if f() > 0 else 'refused')",
        own(Status.OK, Status.SIGNAL),
    ),
    "calls of the other numbering": Attack(
        TRY + "if os.uname().machine == 'x86_64': tries(lambda: libc.syscall(0x40000000 + 39) > 0)",
        own(Status.OK, Status.SIGNAL),
    ),
    "devices": Attack(
        TRY
        + "for p in ('/dev/mem', '/dev/kmsg', '/dev/vda', '/dev/sda', '/dev/kvm', '/dev/fuse', '/dev/net/tun', '/dev/tty', '/dev/ptmx', '/dev/console'): tries(lambda: os.open(p, os.O_RDONLY))\ntries(lambda: os.mknod('n', 0o20666, os.makedev(1, 1)) or True, lambda: os.mknod('b', 0o60666, os.makedev(254, 0)) or True)"
    ),
    "switches of the kernel": Attack(
        TRY
        + "for p in ('/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', '/proc/sys/vm/overcommit_memory', '/sys/kernel/uevent_helper', '/sys/fs/cgroup/memory/memory.limit_in_bytes', '/sys/fs/cgroup/cgroup.procs', '/proc/self/uid_map', '/proc/self/setgroups'): tries(lambda: os.open(p, os.O_WRONLY))"
    ),
    "the clock and the name": Attack(
        TRY + "tries(lambda: time.clock_settime(0, 1e9) or True, lambda: socket.sethostname('x') or True)"
    ),
    "typing into a terminal": Attack(
        TRY + "import fcntl\nfor n in (0, 1, 2): tries(lambda: fcntl.ioctl(n, 0x5412, b'x') or True)"
    ),
    "another user": Attack(
        TRY
        + "for u in (0, 1, 1000, 61000, 65534):\n    if u != os.getuid(): tries(lambda: os.setuid(u) or True, lambda: os.setgid(u) or (u != os.getgid()), lambda: os.setgroups([u]) or True)"
    ),
    "programs with privileges": Attack(
        TRY
        + "import shutil, subprocess\nshutil.copy('/bin/sh', 's'); os.chmod('s', 0o6755)\ntries(lambda: subprocess.run(['./s', '-pc', 'cat /proc/self/status | grep -E \"CapEff.*[1-9a-f]\"'], capture_output=True).stdout)\nfor p in ('mount', 'su', 'chfn', 'passwd', 'newgrp', 'sudo', 'pkexec', 'ping'):\n    p = shutil.which(p)\n    if p: tries(lambda: b'uid=0' in subprocess.run([p, '-c', 'id'], capture_output=True, input=b'', timeout=1).stdout)"
    ),
    "segments that outlive": Attack(
        TRY
        + "tries(lambda: libc.shmget(0x5042, 4096, 0o1666) + 1, lambda: libc.msgget(0x5042, 0o1666) + 1, lambda: libc.semget(0x5042, 1, 0o1666) + 1, lambda: libc.syscall(240, b'q', 0o102, 0o666, None) + 1 if os.uname().machine == 'x86_64' else None)"
    ),
    # the next one
    "the libraries": Attack(
        TRY
        + "import json, random\nfor m in (os, json, random): tries(lambda: open(m.__file__, 'a'), lambda: os.unlink(m.__file__) or True, lambda: os.rename(m.__file__, m.__file__ + 'x') or True)\ntries(lambda: open('/opt/packages/x.py', 'w'), lambda: open(os.path.dirname(os.__file__) + '/sitecustomize.py', 'w'))\nos.open = None; json.dumps = None",
        own(Status.OK),
    ),
    "the doors behind": Attack(
        TRY
        + "for p in ('/box', '/box/work', '/box/tmp', '/box/shm', '/work', '/tmp', '/dev/shm'):\n    try: os.chmod(p, 0)\n    except OSError: pass\n    try: os.rename(p, '/box/gone')\n    except OSError: pass\n    try: os.rmdir(p)\n    except OSError: pass\ntry: os.symlink('/etc', '/box/work')\nexcept OSError: pass"
    ),
    "everything removed": Attack(
        "import subprocess; subprocess.run(['sh', '-c', 'rm -rf /box/work /* 2> /dev/null'])",
        fetch=("passwd", "environ"),
    ),
    "everything found and deleted": Attack(
        "import subprocess; subprocess.run(['sh', '-c', 'find / -delete 2> /dev/null'])", fetch=("passwd", "environ")
    ),
    "the folder moved": Attack(
        "import os, subprocess\nsubprocess.run(['sh', '-c', 'mv /box/work /box/w2; touch /box/work; ln -s /etc /box/w3'])",
        own(Status.OK),
        fetch=("passwd", "hostname"),
    ),
    "a link in place of the folder": Attack(
        TRY
        + "for n in range(3, 30):\n    tries(lambda: os.rmdir('/box/work'), lambda: os.rename('/box/work', f'/box/{{n}}'))\n    tries(lambda: os.symlink(f'/proc/self/fd/{{n}}', '/box/work'))",
        own(Status.OK),
        fetch=("environ", "1/environ", "self/environ", "root{secret_file}"),
    ),
    "flushing the host's disks": Attack(
        TRY
        + "if os.uname().machine == 'x86_64': tries(lambda: libc.syscall(162) + 1, lambda: libc.syscall(306, os.open('.', 0)) + 1)",
        own(Status.OK),
    ),
    "watching the host's files": Attack(
        TRY
        + "tries(lambda: libc.inotify_init() + 1, lambda: libc.inotify_init1(0) + 1, lambda: libc.inotify_add_watch(0, b'/usr/bin', 2) + 1)",
        own(Status.OK),
    ),
    "a name that is no text": Attack(
        TRY + "libc.prctl(15, b') \\xff\\xfe (', 0, 0, 0)\nend = time.time() + 0.5\nwhile time.time() < end: pass",
        own(Status.OK),
    ),
    "a crash": Attack("import ctypes; ctypes.memset(0, 1, 1 << 20)", own(Status.SIGNAL)),
    "an abort": Attack("import os; os.abort()", own(Status.SIGNAL)),
}


class Outcome(NamedTuple):
    """What an attack brought about; `faults` is empty where nothing."""

    status: str
    late_s: float
    faults: tuple[str, ...]


class World:
    """What there is on the host to be attacked."""

    def __init__(self, folder: Path) -> None:
        self.secret = folder / "secret"
        self.secret.write_text(SECRET)
        self.secret.chmod(0o644)
        folder.chmod(0o755)
        self.decoy = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        self.reached: list[str] = []
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.abstract, self.named = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
        address = f"\0{MARK}-{os.getpid()}-{folder.name}"  # an earlier world's socket may close late
        self.abstract.bind(address)
        self.named.bind(str(folder / "socket"))
        os.chmod(folder / "socket", 0o777)
        for server in (self.tcp, self.abstract, self.named):
            server.listen()
            threading.Thread(target=self._accept, args=(server,), daemon=True).start()
        threading.Thread(target=self._hear, daemon=True).start()
        self.words = {
            "{port}": str(self.tcp.getsockname()[1]),
            "{udp}": str(self.udp.getsockname()[1]),
            "{abstract!r}": repr(address),
            "{secret_file}": str(self.secret),
            "{socket_file}": str(folder / "socket"),
            "{decoy}": str(self.decoy.pid),
            "{host}": str(os.getpid()),
            "{mark}": MARK,
            "{half}": SECRET[:9] + "' + '" + SECRET[9:],  # the program must not find its own text
        }

    def program(self, text: str) -> str:
        for word, value in self.words.items():
            text = text.replace(word, value)
        return text.replace("{{", "{").replace("}}", "}")

    def _accept(self, server: socket.socket) -> None:
        try:
            while True:
                self.reached.append(str(server.accept()[0].getsockname()))
        except OSError:
            return

    def _hear(self) -> None:
        try:
            while True:
                self.udp.recv(10)
                self.reached.append("udp")
        except OSError:
            return

    def faults(self) -> list[str]:
        """What has changed that must not."""
        found = [f"a socket of the host was reached: {name}" for name in self.reached]
        if self.decoy.poll() is not None:
            found.append("a process of the host was ended")
        if self.secret.read_text() != SECRET:
            found.append("the planted file was changed")
        return found

    def close(self) -> None:
        self.decoy.kill()
        self.decoy.wait()
        for server in (self.tcp, self.udp, self.abstract, self.named):
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)  # or the thread that listens would keep it open
            server.close()


def leftovers() -> list[str]:
    """Command lines of what attacks have left running."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes()
        except OSError:
            continue
        if MARK.encode() in line and b"sleep 99" in line:
            found.append(line.decode(errors="replace"))
    return found


def attempt(sandbox: Sandbox, world: World, attack: Attack) -> Outcome:
    """Run one attack, and a plain program after it."""
    began = time.monotonic()
    fetch = tuple(path.replace("{secret_file}", str(world.secret)) for path in attack.fetch)
    try:
        result = sandbox.run(
            world.program(attack.program), fetch=fetch, timeout_s=TIMEOUT_S, limits=LIMITS, env={"X": "1"}
        )
    except SandboxError as fault:
        return Outcome("error", 0.0, (f"counted as our fault: {type(fault).__name__}: {fault}",))
    late_s = time.monotonic() - began - TIMEOUT_S
    faults = []
    if result.status not in attack.ends:
        faults.append(f"ended as {result.status}: {result.stderr[-300:]}")
    said = result.stdout + result.stderr + repr(result.files)
    if "ESCAPED" in result.stdout or SECRET in said:
        faults.append(f"it got out: {said[:500]}")
    if len(result.stdout) > LIMITS.output_kb << 10:
        faults.append(f"{len(result.stdout)} characters of output")
    look = "import os; print(sum(map(len, map(os.listdir, ('.', '/tmp', '/dev/shm')))))"
    after = sandbox.run(look, timeout_s=20, limits=LIMITS)
    if after.stdout != "0\n":
        faults.append(f"the next call found {after.stdout!r} {after.stderr[-300:]}")
    return Outcome(result.status, late_s, tuple(faults))


@contextmanager
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory(prefix="turnwise-attacked-") as folder:
        made = World(Path(folder))
        os.environ["ATTACKED"] = SECRET
        try:
            yield made
        finally:
            del os.environ["ATTACKED"]
            made.close()


def attack_all(name: str) -> dict[str, Outcome]:
    """Every attack, four at a time. Who was late among others is tried again alone."""
    with world() as host, sandboxes.open(name, places=4) as sandbox:
        with ThreadPoolExecutor(4) as threads:
            found = dict(
                zip(ATTACKS, threads.map(lambda one: attempt(sandbox, host, one), ATTACKS.values()), strict=True)
            )
        for attack, outcome in found.items():
            if outcome.late_s > GRACE_S:
                found[attack] = attempt(sandbox, host, ATTACKS[attack])
        marks = {"the host": Outcome("", 0.0, tuple(host.faults() + leftovers()))}
    return found | marks


if __name__ == "__main__":
    print(json.dumps(attack_all(sys.argv[1])))

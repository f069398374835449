"""Programs that leave notes for the next call wherever they can, and one that looks for all that differs. No test.

Run as a program for another user: `python tests/support/sandbox_notes.py local 20`.
"""

from __future__ import annotations

import json
import sys

import sandboxes
from sandboxes import Limits, Sandbox

LIMITS = Limits(cpu_s=20, memory_mb=300, processes=32, disk_mb=16, files=500)
PLACES = """
import ctypes, fcntl, glob, os, resource, signal, site, stat, sys, sysconfig, time
libc = ctypes.CDLL(None, use_errno=True)
mark = 'note-' + 'for-the-next'
work, tmp = os.getcwd(), os.environ['TMPDIR']
own = [work, tmp, os.path.dirname(work)]
others = [] if {tier!r} == 'process' else [
    '/', '/box', '/box/work', '/box/tmp', '/box/shm', '/work', '/tmp', '/dev', '/dev/shm', '/opt', '/opt/packages', '/etc',
    '/proc', '/run', '/var/tmp', '/usr/lib', '/usr/bin', '/sys/fs/cgroup', os.path.dirname(work) + '/..', *sys.path,
    *glob.glob('/usr/lib/python3*/dist-packages'), *glob.glob('/usr/l*/python3*/site-packages'),
    *sysconfig.get_paths().values(), os.path.dirname(sys.executable),
]
folders = list(dict.fromkeys(own + [path for path in others if path and os.path.isdir(path)]))
files = ['/dev/null', '/dev/zero', '/etc/passwd', os.__file__, sys.executable, '/bin/sh']
def tries(*acts):
    for act in acts:
        try: act()
        except Exception: pass
"""
NOTE = """
for folder in folders:
    for name in ('note', 'note.pth', 'sitecustomize.py', 'usercustomize.py', 'json.py', 'n' * 99):
        tries(lambda: open(f'{folder}/{name}', 'w').write('import os; os.environ["NOTE"] = "1"'))
    tries(lambda: os.mkdir(f'{folder}/more'), lambda: os.symlink('/etc', f'{folder}/link'), lambda: os.mkfifo(f'{folder}/p'))
for path in folders + files:
    tries(lambda: os.setxattr(path, 'user.note', b'1'), lambda: os.utime(path, (5, 5)), lambda: os.chmod(path, 0o7777))
    tries(lambda: fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB))
    tries(lambda: fcntl.ioctl(os.open(path, os.O_RDONLY), 0x40086602, (0x80).to_bytes(8, 'little')))
tries(*[lambda n=n: open(f'{work}/{n}', 'w').close() for n in range(60)])
tries(lambda: libc.shmget(0x5042, 4096, 0o1666), lambda: libc.semget(0x5042, 1, 0o1666), lambda: libc.msgget(0x5042, 0o1666))
tries(lambda: libc.syscall(248, b'user', b'note', b'1', 1, -4), lambda: libc.syscall(240, b'note', 0o102, 0o666, None))
tries(lambda: libc.sethostname(b'note', 4), lambda: open('/proc/sys/kernel/ns_last_pid', 'w').write('500'))
held = (mark * 5000).encode() * 20
tries(lambda: os.umask(0), lambda: os.nice(5), lambda: signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)))
tries(lambda: os.chmod(work, 0), lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9)))
"""
ENDS = {  # how the program ends, and whether it needs processes of its own
    "": False,
    "os._exit(3)": False,
    "os.closerange(0, 99); signal.pthread_sigmask(signal.SIG_UNBLOCK, range(1, 65)); os.abort()": False,
    "for _ in range(20): tries(lambda: os.fork() or os._exit(0))": True,
    "if not os.fork():\n    while True: tries(lambda: open(f'{work}/late', 'w').close(), lambda: time.sleep(0.001))": True,
    "tries(lambda: os.kill(-1, 9))\nos.kill(os.getpid(), 9)": True,
}
LOOK = """
import hashlib
def kind(path):
    try:
        found = os.lstat(path)
        times = [found.st_mtime == 5, *([] if path in own or path.startswith('/box') else [found.st_mtime])]
        size = found.st_size if path not in ('/proc', '/dev') else 0
        attributes = os.listxattr(path) if not stat.S_ISLNK(found.st_mode) else []
        return oct(found.st_mode), found.st_uid, size, times, attributes
    except OSError as error:
        return str(error)
def names(path):
    try: return [name for name in sorted(os.listdir(path)) if not (path == '/proc' and name.isdigit())]
    except OSError as error: return str(error)
def count_marks():
    count = 0
    try:
        with open('/proc/self/mem', 'rb', 0) as memory:
            for line in open('/proc/self/maps'):
                ends, rights = line.split()[:2]
                if 'r' not in rights or '[v' in line: continue
                first, last = (int(end, 16) for end in ends.split('-'))
                try:
                    memory.seek(first); count += memory.read(last - first).count((mark + mark).encode())
                except (OSError, ValueError, OverflowError): pass
    except OSError as error: return str(error)
    return count
locks = []
for path in own:  # on the system's files others may hold some, as it is documented
    try: fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error: locks.append((path, str(error)))
seen = {'kinds': {p: kind(p) for p in folders + files if {tier!r} == 'namespaces' or 'turnwise-' not in p + work},
    'own': [kind(p) for p in own], 'names': [names(p) for p in folders], 'locks': locks, 'marks': count_marks(),
    'pid': os.getpid() if {tier!r} == 'namespaces' else 0, 'argv': sys.orig_argv, 'host': os.uname()[1],
    'environ': sorted(os.environ.items()) if {tier!r} == 'namespaces' else 'NOTE' in os.environ, 'umask': os.umask(0),
    'nice': os.nice(0), 'mask': [int(n) for n in signal.pthread_sigmask(signal.SIG_BLOCK, [])],
    'limits': [resource.getrlimit(n) for n in range(16) if n not in (0, 9)],  # CPU time and address space come later
    'modules': sorted(sys.modules), 'affinity': sorted(os.sched_getaffinity(0)),
    'ipc': [libc.shmget(0x5042, 4096, 0), libc.semget(0x5042, 1, 0), libc.msgget(0x5042, 0)]}
import json
print(json.dumps(seen))
"""


def hostile_calls(sandbox: Sandbox, count: int) -> list[str]:
    """What a call sees after `count` hostile ones that a call before them did not see."""
    places = PLACES.replace("{tier!r}", repr(sandbox.isolation.tier))
    look = places + LOOK.replace("{tier!r}", repr(sandbox.isolation.tier))
    ends = [end for end, needs_children in ENDS.items() if sandbox.isolation.children or not needs_children]
    before = sandbox.run(look, timeout_s=60, limits=LIMITS)
    if not before.ok:
        return [f"looking: {before.status} {before.stderr[-500:]}"]
    seen = json.loads(before.stdout)
    for number in range(count):
        sandbox.run(places + NOTE + ends[number % len(ends)], timeout_s=20, limits=LIMITS)
        if number < 2 * len(ends) or number == count - 1:
            after = sandbox.run(look, timeout_s=60, limits=LIMITS)
            if not after.ok:
                return [f"after {number + 1} calls: {after.status} {after.stderr[-500:]}"]
            new = json.loads(after.stdout)
            if new != seen:
                keys = [key for key in seen if new[key] != seen[key]]
                return [f"after {number + 1} calls: {key}: {seen[key]!r:.600} became {new[key]!r:.600}" for key in keys]
    return []


if __name__ == "__main__":
    with sandboxes.open(sys.argv[1], packages=(), places=1) as sandbox:
        print(json.dumps(hostile_calls(sandbox, int(sys.argv[2]))))

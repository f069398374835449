"""The system calls that a candidate, an untrusted program, may not make, as a BPF program for the kernel.

It lists what is refused, not what is allowed, as everyday programs must run. Calls newer than those listed here fail
with ENOSYS, so a new kernel adds no way out.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

# name:x86_64:aarch64, "-" where an architecture lacks the call. Fail with EPERM.
_REFUSED = """
    ptrace:101:117 mount:165:40 umount2:166:39 pivot_root:155:41 swapon:167:224 swapoff:168:225 reboot:169:142
    sethostname:170:161 setdomainname:171:162 init_module:175:105 finit_module:313:273 delete_module:176:106
    quotactl:179:60 quotactl_fd:443:443 acct:163:89 settimeofday:164:170 clock_settime:227:112 clock_adjtime:305:266
    adjtimex:159:171 chroot:161:51 kexec_load:246:104 kexec_file_load:320:294 add_key:248:217 request_key:249:218
    keyctl:250:219 mbind:237:235 set_mempolicy:238:237 set_mempolicy_home_node:450:450 migrate_pages:256:238
    move_pages:279:239 unshare:272:97 setns:308:268 perf_event_open:298:241 fanotify_init:300:262
    name_to_handle_at:303:264 open_by_handle_at:304:265 process_vm_readv:310:270 process_vm_writev:311:271
    process_madvise:440:440 process_mrelease:448:448 kcmp:312:272 bpf:321:280 userfaultfd:323:282
    io_uring_setup:425:425 io_uring_enter:426:426 io_uring_register:427:427 open_tree:428:428 move_mount:429:429
    fsopen:430:430 fsconfig:431:431 fsmount:432:432 fspick:433:433 mount_setattr:442:442 pidfd_getfd:438:438
    personality:135:92 syslog:103:116 vhangup:153:58 modify_ldt:154:- ioperm:173:- iopl:172:- lookup_dcookie:212:18
    capset:126:91 memfd_create:319:279 memfd_secret:447:447 shmget:29:194 shmat:30:196 shmctl:31:195 shmdt:67:197
    msgget:68:186 msgsnd:69:189 msgrcv:70:188 msgctl:71:187 semget:64:190 semop:65:193 semctl:66:191
    semtimedop:220:192 mq_open:240:180 mq_unlink:241:181 mq_timedsend:242:182 mq_timedreceive:243:183
    mq_notify:244:184 mq_getsetattr:245:185 ioprio_set:251:30 uselib:134:-
    sync:162:81 syncfs:306:267 inotify_init:253:- inotify_init1:294:26 inotify_add_watch:254:27
"""
# Where programs share the host's mounts: owners may change these of any file that they see, so they succeed and do
# nothing, as programs that copy or unpack files make such calls.
_WITHOUT_EFFECT = """
    chmod:90:- fchmod:91:52 fchmodat:268:53 fchmodat2:452:452 chown:92:- fchown:93:55 lchown:94:- fchownat:260:54
    utime:132:- utimes:235:- futimesat:261:- utimensat:280:88
"""
_ATTRIBUTES = """
    setxattr:188:5 lsetxattr:189:6 fsetxattr:190:7 removexattr:197:14 lremovexattr:198:15 fremovexattr:199:16
"""
# Calls that change another process where this argument is not 0: a candidate with the warden's uid could starve it.
_SELF_ONLY = (  # (x86_64, aarch64, which argument)
    (302, 261, 0),  # prlimit64
    (203, 122, 0),  # sched_setaffinity
    (144, 119, 0),  # sched_setscheduler
    (142, 118, 0),  # sched_setparam
    (314, 274, 0),  # sched_setattr
    (141, 140, 1),  # setpriority: `who`
)
_NEWEST = 452
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_NAMESPACES = 0x7E020000  # every CLONE_NEW* flag of clone(2)
_CLONE_THREAD = 0x00010000
_CLONE, _FORK, _VFORK, _CLONE3 = (56, 220), (57, None), (58, None), (435, 435)
_SOCKET, _IOCTL = (41, 198), (16, 29)
_SETSID = (112, 157)  # succeeds and does nothing: the scheduler would give each session as much time as the host
_SIGNALS = ((62, 129), (200, 130), (234, 131), (129, 138), (297, 240), (424, 424), (434, 434))  # kill ... pidfd_open
_AF_UNIX, _PRIO_USER = 1, 2
_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
_SET_FILE_FLAGS = (0x40086602, 0x40046602, 0x401C5820)  # FS_IOC_SETFLAGS, its 32-bit form, FS_IOC_FSSETXATTR

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_KILL, _ALLOW, _ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
_NUMBER, _ARCH = 0, 4  # offsets in struct seccomp_data; arguments follow at 16, 8 bytes each


def architecture() -> str:
    """Return "x86_64" or "aarch64" if this machine is one, as only their system call numbers are known, else ""."""
    return platform.machine() if platform.machine() in _ARCHITECTURES else ""


class Filter:
    """A seccomp filter, a BPF program that this process and all forked from it can install (`syscalls.install`)."""

    def __init__(self, *, single_process: bool = False) -> None:
        """`single_process`: for programs without namespaces, which see the host's files and processes.

        It also refuses to start processes, to signal any, to make sockets and to change files but by writing to them.
        """
        program = b"".join(_program(single_process))
        self._buffer = ctypes.create_string_buffer(program, len(program))  # must live as long as `struct`
        self.struct = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(self._buffer))


def _program(single_process: bool) -> list[bytes]:
    audit, column = _ARCHITECTURES[platform.machine()]
    program = [_step(_LOAD, _ARCH), _step(_EQUAL, audit, 1, 0), _step(_RETURN, _KILL), _step(_LOAD, _NUMBER)]
    if column == 0:  # the x32 numbers are the same calls again
        program += [_step(_AT_LEAST, 0x40000000, 0, 1), _step(_RETURN, _KILL)]
    program += [_step(_AT_LEAST, _NEWEST + 1, 0, 1), _refuse(errno.ENOSYS)]
    program += _refuse_all(_REFUSED, column, errno.EPERM)
    program += [_step(_EQUAL, _SETSID[column], 0, 1), _refuse(0)]
    program += [
        _step(_EQUAL, _CLONE3[column], 0, 1),
        _refuse(errno.ENOSYS),
    ]  # its flags cannot be read; libc then uses clone
    for *numbers, argument in _SELF_ONLY:
        program += _check_argument(numbers[column], argument, [_step(_EQUAL, 0, 1, 0), _refuse(errno.EPERM)])
    program += _check_argument(_SELF_ONLY[-1][column], 0, [_step(_EQUAL, _PRIO_USER, 0, 1), _refuse(errno.EPERM)])
    program += _check_argument(_CLONE[column], 0, [_step(_ANY_BIT, _NAMESPACES, 0, 1), _refuse(errno.EPERM)])
    for request in (_TIOCSTI, _TIOCLINUX):
        program += _check_argument(_IOCTL[column], 1, [_step(_EQUAL, request, 0, 1), _refuse(errno.EPERM)])
    if single_process:
        program += _refuse_processes(column)
    else:
        program += _check_argument(_SOCKET[column], 0, [_step(_EQUAL, _AF_UNIX, 1, 0), _refuse(errno.EACCES)])
    return [*program, _step(_RETURN, _ALLOW)]


def _refuse_all(words: str, column: int, error: int) -> list[bytes]:
    """Steps that end these calls, each as "name:x86_64:aarch64", with the error number; 0 is success."""
    program = []
    for word in words.split():
        number = word.split(":")[column + 1]
        if number != "-":
            program += [_step(_EQUAL, int(number), 0, 1), _refuse(error)]
    return program


def _refuse_processes(column: int) -> list[bytes]:
    program = _check_argument(_CLONE[column], 0, [_step(_ANY_BIT, _CLONE_THREAD, 1, 0), _refuse(errno.EPERM)])
    program += _refuse_all(_WITHOUT_EFFECT, column, 0) + _refuse_all(_ATTRIBUTES, column, errno.EPERM)
    for request in _SET_FILE_FLAGS:
        program += _check_argument(_IOCTL[column], 1, [_step(_EQUAL, request, 0, 1), _refuse(errno.EPERM)])
    for numbers in (_FORK, _VFORK, _SOCKET, *_SIGNALS):
        number = numbers[column]
        if number is not None:
            program += [_step(_EQUAL, number, 0, 1), _refuse(errno.EPERM)]
    return program


def _check_argument(number: int, argument: int, steps: list[bytes]) -> list[bytes]:
    """Run `steps` on the low half of an argument of one call; the call's number is loaded again after them."""
    return [
        _step(_EQUAL, number, 0, len(steps) + 2),
        _step(_LOAD, 16 + 8 * argument),
        *steps,
        _step(_LOAD, _NUMBER),
    ]


def _refuse(error: int) -> bytes:
    return _step(_RETURN, _ERRNO | error)


def _step(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
    return struct.pack("=HBBI", code, then, otherwise, value)

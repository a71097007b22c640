/* Faults of the disk and of the wall clock for one process, preloaded into it: see injection.py.

   The file named by MINIKAFKA_INJECT is mapped: an offset of the wall clock in seconds, then what the disk does.
   Only files below MINIKAFKA_INJECT_BELOW are affected. Other clocks than the wall clock are left alone. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { WELL, FULL, FAILS_WRITES, FAILS_SYNCS, FAILS_READS };

struct control {
    volatile int64_t clock_seconds;
    volatile int32_t disk;
};

static struct control nothing;
static struct control *control = &nothing;
static const char *below = "";

__attribute__((constructor)) static void start(void)
{
    const char *path = getenv("MINIKAFKA_INJECT");
    const char *folder = getenv("MINIKAFKA_INJECT_BELOW");
    if (!path || !folder)
        return;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct control), PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    if (mapped != MAP_FAILED) {
        below = folder;
        control = mapped;
    }
}

static int is_hit(int fd, int disk)
{
    char link[64], target[PATH_MAX];
    if (control->disk != disk)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, target, sizeof target - 1);
    if (size < 0)
        return 0;
    target[size] = 0;
    return strncmp(target, below, strlen(below)) == 0;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int failed(int error)
{
    errno = error;
    return -1;
}

/* A disk that fills up takes a part of what is written first. */
ssize_t write(int fd, const void *data, size_t size)
{
    static __thread int is_rest;
    static __typeof__(&write) real;
    if (!real)
        real = REAL(write);
    if (is_hit(fd, FAILS_WRITES))
        return failed(EIO);
    if (is_hit(fd, FULL)) {
        is_rest = !is_rest;
        return is_rest && size > 1 ? real(fd, data, size / 2) : failed(ENOSPC);
    }
    return real(fd, data, size);
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
    static __typeof__(&writev) real;
    if (!real)
        real = REAL(writev);
    if (is_hit(fd, FAILS_WRITES))
        return failed(EIO);
    if (is_hit(fd, FULL))
        return count ? write(fd, parts[0].iov_base, parts[0].iov_len) : failed(ENOSPC);
    return real(fd, parts, count);
}

int posix_fallocate64(int fd, off64_t offset, off64_t size)
{
    return is_hit(fd, FULL) ? ENOSPC : is_hit(fd, FAILS_WRITES) ? EIO : REAL(posix_fallocate64)(fd, offset, size);
}

int posix_fallocate(int fd, off_t offset, off_t size)
{
    return posix_fallocate64(fd, offset, size);
}

int fsync(int fd)
{
    return is_hit(fd, FAILS_SYNCS) ? failed(EIO) : REAL(fsync)(fd);
}

int fdatasync(int fd)
{
    return is_hit(fd, FAILS_SYNCS) ? failed(EIO) : REAL(fdatasync)(fd);
}

ssize_t pread64(int fd, void *data, size_t size, off64_t offset)
{
    return is_hit(fd, FAILS_READS) ? failed(EIO) : REAL(pread64)(fd, data, size, offset);
}

ssize_t preadv64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags)
{
    return is_hit(fd, FAILS_READS) ? failed(EIO) : REAL(preadv64v2)(fd, parts, count, offset, flags);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static __typeof__(&clock_gettime) real;
    if (!real)
        real = REAL(clock_gettime);
    int code = real(clock, now);
    if (code == 0 && control->clock_seconds && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        now->tv_sec += control->clock_seconds;
    }
    return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    static __typeof__(&gettimeofday) real;
    if (!real)
        real = REAL(gettimeofday);
    int code = real(now, zone);
    if (code == 0 && control->clock_seconds)
        now->tv_sec += control->clock_seconds;
    return code;
}

time_t time(time_t *result)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (result)
        *result = now.tv_sec;
    return now.tv_sec;
}

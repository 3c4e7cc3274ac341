/* Records what a process does to the files of one folder, in the order in which the kernel saw it, so that a power cut
   at any moment can be played: LD_PRELOAD this, with POWER_DIR and POWER_LOG set. A line on stdout is recorded too: it
   is what was acknowledged by then.

   Each record: kind (O open, W write, T truncate, S sync, U unlink, A acknowledged), file, offset, length, bytes. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define MOST 4096
static char watched[MOST];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;

static void record(char kind, int file, uint64_t offset, const void *bytes, uint32_t length) {
    char head[17];
    head[0] = kind;
    memcpy(head + 1, &file, 4);
    memcpy(head + 5, &offset, 8);
    memcpy(head + 13, &length, 4);
    if (log_fd < 0) log_fd = syscall(SYS_openat, AT_FDCWD, getenv("POWER_LOG"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    syscall(SYS_write, log_fd, head, sizeof head);
    if (length) syscall(SYS_write, log_fd, bytes, length);
}

static int in_folder(const char *path) {
    const char *folder = getenv("POWER_DIR");
    return folder && path && strncmp(path, folder, strlen(folder)) == 0;
}

static int opened(int fd, const char *path) {
    if (fd >= 0 && fd < MOST && (watched[fd] = in_folder(path))) record('O', fd, 0, path, strlen(path));
    return fd;
}

#define OPEN(name)                                                                \
    int name(const char *path, int flags, ...) {                                  \
        va_list more;                                                             \
        va_start(more, flags);                                                    \
        int mode = va_arg(more, int);                                             \
        va_end(more);                                                             \
        pthread_mutex_lock(&lock);                                                \
        int fd = opened(syscall(SYS_openat, AT_FDCWD, path, flags, mode), path); \
        pthread_mutex_unlock(&lock);                                              \
        return fd;                                                                \
    }
OPEN(open)
OPEN(open64)

#define PWRITE(name)                                                                  \
    ssize_t name(int fd, const void *bytes, size_t length, off64_t offset) {          \
        pthread_mutex_lock(&lock);                                                    \
        ssize_t done = syscall(SYS_pwrite64, fd, bytes, length, offset);              \
        if (done > 0 && fd < MOST && watched[fd]) record('W', fd, offset, bytes, done); \
        pthread_mutex_unlock(&lock);                                                  \
        return done;                                                                  \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

ssize_t write(int fd, const void *bytes, size_t length) {
    pthread_mutex_lock(&lock);
    off64_t offset = fd >= 0 && fd < MOST && watched[fd] ? lseek64(fd, 0, SEEK_CUR) : 0;
    ssize_t done = syscall(SYS_write, fd, bytes, length);
    if (done > 0 && fd == 1) record('A', fd, 0, bytes, done);
    if (done > 0 && fd < MOST && watched[fd]) record('W', fd, offset, bytes, done);
    pthread_mutex_unlock(&lock);
    return done;
}

#define TRUNCATE(name)                                                          \
    int name(int fd, off64_t length) {                                          \
        pthread_mutex_lock(&lock);                                              \
        int failed = syscall(SYS_ftruncate, fd, length);                        \
        if (!failed && fd < MOST && watched[fd]) record('T', fd, length, "", 0); \
        pthread_mutex_unlock(&lock);                                            \
        return failed;                                                          \
    }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

#define SYNC(name, number)                                                  \
    int name(int fd) {                                                      \
        pthread_mutex_lock(&lock);                                          \
        int failed = syscall(number, fd);                                   \
        if (!failed && fd < MOST && watched[fd]) record('S', fd, 0, "", 0); \
        pthread_mutex_unlock(&lock);                                        \
        return failed;                                                      \
    }
SYNC(fsync, SYS_fsync)
SYNC(fdatasync, SYS_fdatasync)

int unlink(const char *path) {
    pthread_mutex_lock(&lock);
    int failed = syscall(SYS_unlink, path);
    if (!failed && in_folder(path)) record('U', 0, 0, path, strlen(path));
    pthread_mutex_unlock(&lock);
    return failed;
}

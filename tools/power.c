/* Record what a process does to the files of one folder, in the order in which the kernel saw it,
   so that a power cut at any moment can be simulated. Use it with LD_PRELOAD, and set POWER_DIR (the
   folder) and POWER_LOG (the file to write). A line on stdout is recorded too: it says what the
   process acknowledged by then.

   Each record has a header of 17 bytes (kind, descriptor, offset, length) and `length` bytes of
   data. Kinds: O open (data: the path), W write, T truncate (offset: the new length), S sync,
   U unlink (data: the path), A acknowledged. A call and its record are made under one lock, so that records
   stand in the order of the calls. */
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

#define MAX_DESCRIPTORS 4096
static char watched[MAX_DESCRIPTORS]; /* whether a descriptor is of a file in the folder */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int log_fd = -1;

static int is_watched(int fd) { return fd >= 0 && fd < MAX_DESCRIPTORS && watched[fd]; }

static void record(char kind, int file, uint64_t offset, const void *bytes, uint32_t length) {
    char head[17];
    head[0] = kind;
    memcpy(head + 1, &file, 4);
    memcpy(head + 5, &offset, 8);
    memcpy(head + 13, &length, 4);

    /* System calls of our own go past the functions below, which would record them. */
    if (log_fd < 0) {
        int flags = O_WRONLY | O_CREAT | O_APPEND;
        log_fd = syscall(SYS_openat, AT_FDCWD, getenv("POWER_LOG"), flags, 0600);
    }
    syscall(SYS_write, log_fd, head, sizeof head);
    if (length) syscall(SYS_write, log_fd, bytes, length);
}

static int in_folder(const char *path) {
    const char *folder = getenv("POWER_DIR");
    return folder && path && strncmp(path, folder, strlen(folder)) == 0;
}

static void record_open(int fd, const char *path) {
    if (fd < 0 || fd >= MAX_DESCRIPTORS) return;
    watched[fd] = in_folder(path);
    if (watched[fd]) record('O', fd, 0, path, strlen(path));
}

#define OPEN(name)                                                                \
    int name(const char *path, int flags, ...) {                                  \
        va_list more;                                                             \
        va_start(more, flags);                                                    \
        int mode = va_arg(more, int);                                             \
        va_end(more);                                                             \
        pthread_mutex_lock(&lock);                                                \
        int fd = syscall(SYS_openat, AT_FDCWD, path, flags, mode);                \
        record_open(fd, path);                                                    \
        pthread_mutex_unlock(&lock);                                              \
        return fd;                                                                \
    }
OPEN(open)
OPEN(open64)

#define PWRITE(name)                                                                  \
    ssize_t name(int fd, const void *bytes, size_t length, off64_t offset) {          \
        pthread_mutex_lock(&lock);                                                    \
        ssize_t done = syscall(SYS_pwrite64, fd, bytes, length, offset);              \
        if (done > 0 && is_watched(fd)) record('W', fd, offset, bytes, done); \
        pthread_mutex_unlock(&lock);                                                  \
        return done;                                                                  \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

ssize_t write(int fd, const void *bytes, size_t length) {
    pthread_mutex_lock(&lock);
    off64_t offset = is_watched(fd) ? lseek64(fd, 0, SEEK_CUR) : 0;
    ssize_t done = syscall(SYS_write, fd, bytes, length);
    if (done > 0 && fd == 1) record('A', fd, 0, bytes, done);
    if (done > 0 && is_watched(fd)) record('W', fd, offset, bytes, done);
    pthread_mutex_unlock(&lock);
    return done;
}

#define TRUNCATE(name)                                                          \
    int name(int fd, off64_t length) {                                          \
        pthread_mutex_lock(&lock);                                              \
        int failed = syscall(SYS_ftruncate, fd, length);                        \
        if (!failed && is_watched(fd)) record('T', fd, length, "", 0); \
        pthread_mutex_unlock(&lock);                                            \
        return failed;                                                          \
    }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

#define SYNC(name, number)                                                  \
    int name(int fd) {                                                      \
        pthread_mutex_lock(&lock);                                          \
        int failed = syscall(number, fd);                                   \
        if (!failed && is_watched(fd)) record('S', fd, 0, "", 0); \
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

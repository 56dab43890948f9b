/* What the headers of a newer glibc make programs call, and glibc 2.28 does not have: defined here, hidden, from what it
 * does have. An archive of this is searched before libc, so that only what is referenced is linked.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <wchar.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* 2.32. Zero says that there may be threads, which is always right: it only costs an atomic operation. */
HIDDEN char __libc_single_threaded = 0;

/* 2.33 gave the stat family symbols of its own; before, headers called __xstat with the version of the structure. */
#if defined(__x86_64__)
#define STAT_VERSION 1
#else
#define STAT_VERSION 0
#endif
struct stat;
struct stat64;
#define STAT_FAMILY(SUFFIX)                                                                                  \
  extern int __xstat##SUFFIX(int, const char*, struct stat##SUFFIX*);                                        \
  extern int __lxstat##SUFFIX(int, const char*, struct stat##SUFFIX*);                                       \
  extern int __fxstat##SUFFIX(int, int, struct stat##SUFFIX*);                                               \
  extern int __fxstatat##SUFFIX(int, int, const char*, struct stat##SUFFIX*, int);                           \
  HIDDEN int stat##SUFFIX(const char* path, struct stat##SUFFIX* out) {                                      \
    return __xstat##SUFFIX(STAT_VERSION, path, out);                                                         \
  }                                                                                                          \
  HIDDEN int lstat##SUFFIX(const char* path, struct stat##SUFFIX* out) {                                     \
    return __lxstat##SUFFIX(STAT_VERSION, path, out);                                                        \
  }                                                                                                          \
  HIDDEN int fstat##SUFFIX(int fd, struct stat##SUFFIX* out) { return __fxstat##SUFFIX(STAT_VERSION, fd, out); } \
  HIDDEN int fstatat##SUFFIX(int fd, const char* path, struct stat##SUFFIX* out, int flags) {                \
    return __fxstatat##SUFFIX(STAT_VERSION, fd, path, out, flags);                                           \
  }
STAT_FAMILY()
STAT_FAMILY(64)

/* 2.30: waits on a clock of the caller's choice, which libstdc++ uses for std::chrono::steady_clock. The old functions
 * wait on the realtime clock, so the deadline is moved over to it, as libstdc++ did by itself before. */
typedef union pthread_cond pthread_cond;
typedef union pthread_mutex pthread_mutex;
typedef union pthread_rwlock pthread_rwlock;
extern int pthread_cond_timedwait(pthread_cond*, pthread_mutex*, const struct timespec*);
extern int pthread_mutex_timedlock(pthread_mutex*, const struct timespec*);
extern int pthread_rwlock_timedrdlock(pthread_rwlock*, const struct timespec*);
extern int pthread_rwlock_timedwrlock(pthread_rwlock*, const struct timespec*);

static struct timespec on_realtime(clockid_t clock, const struct timespec* deadline) {
  struct timespec result = *deadline, there, here;
  if (clock == CLOCK_REALTIME) return result;
  clock_gettime(clock, &there);
  clock_gettime(CLOCK_REALTIME, &here);
  result.tv_sec += here.tv_sec - there.tv_sec;
  result.tv_nsec += here.tv_nsec - there.tv_nsec;
  if (result.tv_nsec < 0) {
    result.tv_nsec += 1000000000;
    --result.tv_sec;
  } else if (result.tv_nsec >= 1000000000) {
    result.tv_nsec -= 1000000000;
    ++result.tv_sec;
  }
  return result;
}

HIDDEN int pthread_cond_clockwait(pthread_cond* c, pthread_mutex* m, clockid_t clock, const struct timespec* deadline) {
  const struct timespec moved = on_realtime(clock, deadline);
  return pthread_cond_timedwait(c, m, &moved);
}
HIDDEN int pthread_mutex_clocklock(pthread_mutex* m, clockid_t clock, const struct timespec* deadline) {
  const struct timespec moved = on_realtime(clock, deadline);
  return pthread_mutex_timedlock(m, &moved);
}
HIDDEN int pthread_rwlock_clockrdlock(pthread_rwlock* l, clockid_t clock, const struct timespec* deadline) {
  const struct timespec moved = on_realtime(clock, deadline);
  return pthread_rwlock_timedrdlock(l, &moved);
}
HIDDEN int pthread_rwlock_clockwrlock(pthread_rwlock* l, clockid_t clock, const struct timespec* deadline) {
  const struct timespec moved = on_realtime(clock, deadline);
  return pthread_rwlock_timedwrlock(l, &moved);
}

/* 2.38: the number parsers of C23, to which headers redirect the old names. They differ in the prefix 0b alone. The old
 * functions are declared under names of this file's own, since here too the headers may redirect theirs. */
#define PARSER(TYPE, NAME, CHAR)                                           \
  extern TYPE kernelyard_##NAME(const CHAR*, CHAR**, int) __asm__(#NAME);  \
  HIDDEN TYPE __isoc23_##NAME(const CHAR* text, CHAR** end, int base) {    \
    return kernelyard_##NAME(text, end, base);                             \
  }
PARSER(long, strtol, char)
PARSER(unsigned long, strtoul, char)
PARSER(long long, strtoll, char)
PARSER(unsigned long long, strtoull, char)
PARSER(intmax_t, strtoimax, char)
PARSER(uintmax_t, strtoumax, char)
PARSER(long, wcstol, wchar_t)
PARSER(unsigned long, wcstoul, wchar_t)
PARSER(long long, wcstoll, wchar_t)
PARSER(unsigned long long, wcstoull, wchar_t)

extern int kernelyard_vsscanf(const char*, const char*, va_list) __asm__("__isoc99_vsscanf");
extern int kernelyard_vfscanf(FILE*, const char*, va_list) __asm__("__isoc99_vfscanf");
HIDDEN int __isoc23_vsscanf(const char* text, const char* format, va_list list) {
  return kernelyard_vsscanf(text, format, list);
}
HIDDEN int __isoc23_sscanf(const char* text, const char* format, ...) {
  va_list list;
  va_start(list, format);
  const int result = kernelyard_vsscanf(text, format, list);
  va_end(list);
  return result;
}
HIDDEN int __isoc23_fscanf(FILE* file, const char* format, ...) {
  va_list list;
  va_start(list, format);
  const int result = kernelyard_vfscanf(file, format, list);
  va_end(list);
  return result;
}

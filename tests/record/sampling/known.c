// Programs whose stacks are known. Built without frame pointers: what leads from a function to its
// caller is in its call frame information alone.
#define _GNU_SOURCE
#include <alloca.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t sink;

static double spent(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

#define WORK(name)                                             \
  __attribute__((noinline)) void name(long n) {                \
    for (long i = 0; i < n; i++) sink += (uint64_t)i * 3 + 1;  \
    __asm__ volatile("");                                      \
  }
WORK(sixty)
WORK(thirty)
WORK(ten)

__attribute__((noinline)) void one_round(long n) {
  sixty(6 * n);
  thirty(3 * n);
  ten(n);
  __asm__ volatile("");
}

// `seconds` of CPU time in known shares.
__attribute__((noinline)) void run_shares(double seconds) {
  for (double end = spent() + seconds; spent() < end;) one_round(2000);
  __asm__ volatile("");
}

// ---- a stack of all kinds, which says itself what it is -----------------------------------------

static double burn_s;

__attribute__((noinline)) void burn(void) {
  for (double end = spent() + burn_s; spent() < end;) ten(20000);
  __asm__ volatile("");
}

__attribute__((noinline)) void tell_and_burn(void) {
  void* places[64];
  // libgcc's own unwinder, which follows the same information by other code.
  backtrace_symbols_fd(places, backtrace(places, 64), 1);
  fflush(stdout);
  burn();
  __asm__ volatile("");
}

static void on_signal(int number) {
  (void)number;
  tell_and_burn();
  __asm__ volatile("");
}

__attribute__((noinline)) void with_signal(void) {
  raise(SIGUSR1);
  __asm__ volatile("");
}

// Its frame's size is not known when it is compiled: the frame's address is in a register.
__attribute__((noinline)) void with_alloca(int n) {
  char* room = alloca((size_t)n * 100 + 16);
  memset(room, n, (size_t)n * 100);
  with_signal();
  sink += (uint64_t)room[n];
}

// Its stack is aligned: the frame's address is saved in memory.
__attribute__((noinline)) void with_alignment(int n) {
  _Alignas(64) volatile char room[256];
  room[n] = 1;
  with_alloca(n + (int)room[n]);
  sink += (uint64_t)room[n];
}

static int compare(const void* a, const void* b) {
  static int done;
  if (!done++) with_alignment(3);
  return *(const int*)a - *(const int*)b;
}

__attribute__((noinline)) void through_the_library(int depth) {
  if (depth) {
    through_the_library(depth - 1);
  } else {
    int numbers[] = {3, 1, 2};
    qsort(numbers, 3, sizeof(int), compare);
    sink += (uint64_t)numbers[0];
  }
  __asm__ volatile("");
}

// ---- code that is compiled while it runs, as CPython's trampolines are --------------------------

typedef void (*Trampoline)(double, void (*)(double));

static void wait_until_told(void) {
  puts("ready");
  fflush(stdout);
  getchar();
}

static void run_compiled(double seconds, int is_late) {
  // sub $8, %rsp; call *%rdi; add $8, %rsp; ret
  static const unsigned char code[] = {0x48, 0x83, 0xec, 8, 0xff, 0xd7, 0x48, 0x83, 0xc4, 8, 0xc3};
  unsigned char* at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(at, code, sizeof code);
  char name[64];
  snprintf(name, sizeof name, "/tmp/perf-%d.map", getpid());
  if (is_late > 0) ((void (*)(void (*)(void)))(void*)at)(burn);
  FILE* map = fopen(name, "w");
  fprintf(map, "%lx %x py::train_step:/home/me/train.py\n", (unsigned long)at, (unsigned)sizeof code);
  fclose(map);
  burn_s = seconds;
  if (is_late < 0) wait_until_told();
  if (is_late <= 0) ((void (*)(void (*)(void)))(void*)at)(burn);
}

// ---- threads and processes ----------------------------------------------------------------------

static void* run_thread(void* seconds) {
  pthread_setname_np(pthread_self(), "worker");
  run_shares(*(double*)seconds);
  return NULL;
}

static void run_family(double seconds) {
  pthread_t thread;
  pthread_create(&thread, NULL, run_thread, &seconds);
  pid_t child = fork();
  if (!child) {
    run_shares(seconds);
    _exit(0);
  }
  printf("%d\n", child);
  fflush(stdout);
  run_shares(seconds);
  pthread_join(thread, NULL);
  waitpid(child, NULL, 0);
}

int main(int count, char** words) {
  const double seconds = count > 2 ? atof(words[2]) : 1;
  burn_s = seconds;
  if (!strcmp(words[1], "shares")) run_shares(seconds);
  if (!strcmp(words[1], "compiled")) run_compiled(seconds, 0);
  if (!strcmp(words[1], "compiled-ready")) run_compiled(seconds, -1);
  if (!strcmp(words[1], "late")) run_compiled(seconds, 1);
  if (!strcmp(words[1], "family")) run_family(seconds);
  if (!strcmp(words[1], "stack")) {
    signal(SIGUSR1, on_signal);
    through_the_library(5);
  }
  if (!strcmp(words[1], "ready")) {  // works when it is told to
    wait_until_told();
    run_shares(seconds);
  }
  return 0;
}

/* A program that calls the libraries of fake_gpu.c: waits for a line, does N rounds, says so. */
#include <pthread.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct { unsigned x, y, z; } dim3;
typedef struct {
  unsigned gx, gy, gz, bx, by, bz, shared;
  void *stream, *attributes;
  unsigned count;
} Config;
extern int cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, void *);
extern int cudaMemcpy(void *, const void *, size_t, int);
extern int cudaMemcpyAsync(void *, const void *, size_t, int, void *);
extern int cudaMemcpy2DAsync(void *, size_t, const void *, size_t, size_t, size_t, int, void *);
extern int cudaMalloc(void **, size_t);
extern int cudaFree(void *);
extern int cudaMemsetAsync(void *, int, size_t, void *);
extern int cudaStreamSynchronize(void *);
extern int cudaEventSynchronize(void *);
extern int cuLaunchKernelEx(const Config *, void *, void **, void **);
extern int cuModuleGetFunction(void **, void *, const char *);
extern int ncclAllReduce(const void *, void *, size_t, int, int, void *, void *);
extern int ncclSend(const void *, size_t, int, int, void *, void *);

extern int cudaDeviceSynchronize(void);
extern void (*on_synchronize)(void);
static jmp_buf place;
static void jump(void) { longjmp(place, 1); }

/* What nvcc makes of a __global__ function: its host stub has the kernel's own name. */
__attribute__((noinline)) void _Z5saxpyifPfS_(void) { __asm__ volatile(""); }
__attribute__((noinline)) void _Z5scaleIfEvPT_S0_i(void) { __asm__ volatile(""); }

#define STREAM ((void *)0x5000)

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

static void *copies(void *count) {
  for (long i = 0; i < (long)count; i++)
    cudaMemcpyAsync((void *)0x1000, (void *)0x2000, 777, 1 + i % 3, STREAM);
  return NULL;
}

/* Everything once. */
__attribute__((noinline)) static void once(void) {
  void *p = NULL, *f = NULL;
  dim3 grid = {7, 5, 3}, block = {128, 2, 1};
  cudaMalloc(&p, 4096);
  cudaMalloc(&p, (size_t)1 << 31); /* fails: out of memory */
  cudaMemcpy(p, (void *)0x2000, 1000, 1);
  cudaMemcpy2DAsync(p, 512, (void *)0x2000, 256, 200, 30, 2, STREAM);
  cudaMemsetAsync(p, 7, 640, STREAM);
  cudaLaunchKernel((void *)_Z5saxpyifPfS_, grid, block, NULL, 2048, STREAM);
  cuModuleGetFunction(&f, NULL, "_Z10triton_addPf");
  Config config = {11, 12, 13, 32, 4, 2, 512, STREAM, NULL, 0};
  cuLaunchKernelEx(&config, f, NULL, NULL);
  ncclAllReduce(p, p, 123456, 7, 0, (void *)0xc0, STREAM);
  ncclSend(p, 99, 9, 3, (void *)0xc0, STREAM);
  cudaStreamSynchronize(STREAM);
  cudaEventSynchronize(NULL);
  cudaFree(p);
}

int main(int count, char **words) {
  char line[64];
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("%d\n", getpid());
  while (fgets(line, sizeof(line), stdin)) {
    long n = atol(line + 1);
    dim3 grid = {n % 100 + 1, 1, 1}, block = {64, 1, 1};
    double start = now();
    if (line[0] == 'a') once();
    if (line[0] == 'l')
      for (long i = 0; i < n; i++)
        cudaLaunchKernel(i % 4 ? (void *)_Z5saxpyifPfS_ : (void *)_Z5scaleIfEvPT_S0_i, grid, block,
                         NULL, 0, STREAM);
    if (line[0] == 'c') copies((void *)n);
    if (line[0] == 't') {
      pthread_t threads[8];
      for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, copies, (void *)(n / 8));
      for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
    }
    if (line[0] == 'j') {
      for (volatile long i = 0; i < n; i++) {
        on_synchronize = i % 2 ? jump : NULL; /* each second call never returns */
        if (!setjmp(place)) cudaDeviceSynchronize();
      }
    }
    if (line[0] == 'k') *(volatile int *)NULL = 1;
    printf("%.1f\n", n ? (now() - start) / n : 0);
  }
  return 0;
}

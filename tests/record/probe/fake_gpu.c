/* Libraries with the functions of libcudart, libcuda and libnccl that do nothing but succeed.

   Built three times, with -DRUNTIME, -DDRIVER or -DNCCL; the runtime calls the driver as the real one
   does. Written from the signatures in the vendors' headers. */
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define API __attribute__((visibility("default"), noinline))
typedef struct { unsigned x, y, z; } dim3;

/* So that a function begins as those of real libraries do, by putting a register on the stack. */
#if defined(__x86_64__)
#define SAVE_A_REGISTER __asm__ volatile("" ::: "memory", "rbx")
#else
#define SAVE_A_REGISTER __asm__ volatile("" ::: "memory", "x19")
#endif

static void sleep_ns(long ns) {
  struct timespec t = {0, ns};
  nanosleep(&t, NULL);
}

#ifdef DRIVER
API int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                       unsigned bz, unsigned shared, void *stream, void **params, void **extra) {
  SAVE_A_REGISTER;
  return 0;
}
typedef struct {
  unsigned gx, gy, gz, bx, by, bz, shared;
  void *stream, *attributes;
  unsigned count;
} Config;
API int cuLaunchKernelEx(const Config *config, void *f, void **params, void **extra) {
  SAVE_A_REGISTER;
  return 0;
}
API int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t n, void *stream) {
  SAVE_A_REGISTER;
  return 0;
}
API int cuModuleGetFunction(void **f, void *module, const char *name) {
  SAVE_A_REGISTER;
  *f = (void *)(0x7000 + (uintptr_t)name[0]);
  return 0;
}
API int cuMemAlloc_v2(uint64_t *p, size_t n) {
  SAVE_A_REGISTER;
  *p = 0x7f0000000000 + n;
  return n > 1u << 30 ? 2 : 0;
}
#endif

#ifdef RUNTIME
extern int cuLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, void *, void **, void **);
API int cudaLaunchKernel(const void *f, dim3 grid, dim3 block, void **args, size_t shared,
                         void *stream) {
  SAVE_A_REGISTER;
  return cuLaunchKernel((void *)f, grid.x, grid.y, grid.z, block.x, block.y, block.z, shared,
                        stream, args, NULL);
}
API int cudaMemcpy(void *dst, const void *src, size_t n, int kind) {
  SAVE_A_REGISTER;
  return kind > 4 ? 21 : 0;
}
API int cudaMemcpyAsync(void *dst, const void *src, size_t n, int kind, void *stream) {
  SAVE_A_REGISTER;
  return 0;
}
API int cudaMemcpy2DAsync(void *dst, size_t dpitch, const void *src, size_t spitch, size_t width,
                          size_t height, int kind, void *stream) {
  SAVE_A_REGISTER;
  return 0;
}
API int cudaMalloc(void **p, size_t n) {
  SAVE_A_REGISTER;
  *p = (void *)(0x7f0000000000 + n);
  return n > 1u << 30 ? 2 : 0;
}
API int cudaFree(void *p) {
  SAVE_A_REGISTER;
  return 0;
}
API int cudaMemsetAsync(void *p, int value, size_t n, void *stream) {
  SAVE_A_REGISTER;
  return 0;
}
API int cudaStreamSynchronize(void *stream) {
  SAVE_A_REGISTER;
  sleep_ns(20000000);
  return 0;
}
/* A host callback in it may leave it by a jump, as an exception does. */
API void (*on_synchronize)(void);
API int cudaDeviceSynchronize(void) {
  SAVE_A_REGISTER;
  if (on_synchronize) on_synchronize();
  return 0;
}
/* A function that nothing but single steps could be probed on. */
#if defined(__x86_64__)
__attribute__((naked)) API int cudaEventSynchronize(void *event) {
  __asm__("xor %eax, %eax\n ret");
}
#else
API int cudaEventSynchronize(void *event) { return 0; }
#endif
#endif

#ifdef NCCL
API int ncclAllReduce(const void *send, void *recv, size_t count, int type, int op, void *comm,
                      void *stream) {
  SAVE_A_REGISTER;
  return 0;
}
API int ncclSend(const void *send, size_t count, int type, int peer, void *comm, void *stream) {
  SAVE_A_REGISTER;
  return 0;
}
#endif

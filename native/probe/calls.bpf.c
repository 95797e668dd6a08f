// Calls of GPU libraries, seen by uprobes: what each asked for, how long it took, how often.
//
// One program runs where a function is entered and one where it returns; the cookie says which
// function of `functions` it is. A call becomes one record when it returns. Counts are kept for all
// calls, also for those whose record finds no room, so that a loss is known exactly.
//
// Only registers and the program's memory are read (struct pt_regs is the kernel's stable interface
// to user space), so one object runs on all kernels that have task storage for uprobes: one for
// x86-64, and one for AArch64 (__TARGET_ARCH_x86, __TARGET_ARCH_arm64). The layouts here are read by src/sightline/record/probe/bpf.py and src/sightline/core/model/probe_file.py.

#include <linux/types.h>
#include <linux/bpf.h>
#include <linux/ptrace.h>

#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

enum { MAX_FUNCTIONS = 1024, MAX_DEPTH = 8, WORDS = 5, NAME_BYTES = 512, STACK_FRAMES = 64 };

// What a function is; as KINDS in src/sightline/record/probe/functions.py.
enum { OTHER, LAUNCH, GRAPH, COPY, FILL, ALLOCATE, FREE, WAIT, COLLECTIVE, NAME };
// How its arguments become words; as SHAPES there.
enum { SELECT, GRID_BY_VALUE, GRID_BY_NUMBER, CONFIG_RUNTIME, CONFIG_DRIVER };
// Bits of `flags` of a function.
enum { READS_STACK = 1, RETURNS_POINTER = 4, RETURNS_NOTHING = 8 };
// Numbers in `words` that are no argument: NO_WORD is zero, what follows CONSTANT a number itself.
enum { NO_WORD = 15, CONSTANT = 16, NO_FACTOR = 255 };
// Bits of `flags` of a record.
enum { NESTED = 1 };

struct function {
  __u8 kind, shape, flags, text;  // text: the argument that points to a name
  __u8 words[WORDS];              // the argument that is each word: from the 7th on, on the stack
  __u8 factor, shift, unused;     // of the bytes: the argument that multiplies them
};

struct frame {
  __u64 start, sp;
  __u32 function;
  __s32 stack;
  __u64 words[WORDS];
  __u64 pointer;  // where the function puts its result
  __u64 caller;   // where it returns to: a stack that is found by frame pointers lacks it
  __u64 text;
  __u32 flags, kind;
};

struct thread {
  __u32 depth;
  __u32 unused;
  struct frame frames[MAX_DEPTH];
};

struct record {
  __u64 start, end;
  __u32 pid, tid;
  __u16 function, flags;
  __s32 stack;
  __s64 result;
  __u64 caller;
  __u64 words[WORDS];
};

struct name {
  __u64 time, handle, other, address;
  __u32 pid;
  __u16 function;
  __u16 length;
  char text[NAME_BYTES];
};

struct total_key {
  __u32 pid, function;
};

struct total {
  __u64 entered, returned, failed, lost, duration, bytes;
};

struct kernel_key {
  __u64 handle;
  __u32 pid, unused;
};

struct size_key {
  __u32 pid;
  __u16 what;    // LAUNCH: grid, GRAPH (of no use there): block, 16 + n: copies of kind n
  __u16 bucket;  // values up to 2^bucket; SUM is the bucket that adds them up
};
enum { GRID_SIZE = 1, BLOCK_SIZE = 2, COPY_SIZE = 16, SUM = 255 };

// Set before the program is loaded.
const volatile __u8 records_calls = 1;
const volatile __u8 takes_stacks = 0;
const volatile __u8 counts_sizes = 0;

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, MAX_FUNCTIONS);
  __type(key, __u32);
  __type(value, struct function);
} functions SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_TASK_STORAGE);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, int);
  __type(value, struct thread);
} threads SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 1 << 26);
} calls SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 1 << 20);
} names SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_STACK_TRACE);
  __uint(max_entries, 16384);
  __uint(key_size, sizeof(__u32));
  __uint(value_size, STACK_FRAMES * sizeof(__u64));
} stacks SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __uint(max_entries, 65536);
  __type(key, struct total_key);
  __type(value, struct total);
} totals SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __uint(max_entries, 16384);
  __type(key, struct kernel_key);
  __type(value, __u64);
} kernels SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __uint(max_entries, 16384);
  __type(key, struct size_key);
  __type(value, __u64);
} sizes SEC(".maps");

// What found no room elsewhere: 0 totals, 1 kernels, 2 stacks, 3 depth, 4 names, 5 threads, 6 sizes
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 8);
  __type(key, __u32);
  __type(value, __u64);
} misses SEC(".maps");

// The frame at a depth; the compiler must not take away what proves to the verifier that it exists.
static __always_inline struct frame *frame_at(struct thread *thread, __u64 depth) {
  asm volatile("%0 &= 7" : "+r"(depth));
  return &thread->frames[depth];
}

static void note_miss(__u32 what) {
  __u64 *count = bpf_map_lookup_elem(&misses, &what);
  if (count) __sync_fetch_and_add(count, 1);
}

static struct total *find_total(__u32 pid, __u32 function) {
  struct total_key key = {pid, function};
  struct total *total = bpf_map_lookup_elem(&totals, &key);
  if (total) return total;
  struct total none = {};
  bpf_map_update_elem(&totals, &key, &none, BPF_NOEXIST);
  total = bpf_map_lookup_elem(&totals, &key);
  if (!total) note_miss(0);
  return total;
}

static void add_count(void *map, const void *key, __u64 amount, __u32 miss) {
  __u64 *count = bpf_map_lookup_elem(map, key);
  if (!count) {
    __u64 zero = 0;
    bpf_map_update_elem(map, key, &zero, BPF_NOEXIST);
    count = bpf_map_lookup_elem(map, key);
  }
  if (count)
    __sync_fetch_and_add(count, amount);
  else
    note_miss(miss);
}

static void add_size(__u32 pid, __u16 what, __u64 value) {
  struct size_key key = {pid, what, 0};
  __u64 rest = value ? value - 1 : 0;  // the smallest power of two that is not less
#pragma unroll
  for (int shift = 32; shift; shift >>= 1) {
    if (rest >> shift) {
      rest >>= shift;
      key.bucket += shift;
    }
  }
  key.bucket += rest != 0;
  add_count(&sizes, &key, 1, 6);
  key.bucket = SUM;
  add_count(&sizes, &key, value, 6);
}

struct arguments {
  __u64 at[11];  // ten in registers and on the stack, and zero
};

// Where a function begins: System V ABI for x86-64, figure 3.4; Procedure Call Standard for the Arm
// 64-bit Architecture, 6.8.2. A dim3 takes two places in both.
#if defined(__TARGET_ARCH_x86)
enum { IN_REGISTERS = 6, CALL_BYTES = 8 };  // a call puts its return address on the stack
static __always_inline void read_registers(struct pt_regs *ctx, __u64 *at) {
  at[0] = ctx->rdi;
  at[1] = ctx->rsi;
  at[2] = ctx->rdx;
  at[3] = ctx->rcx;
  at[4] = ctx->r8;
  at[5] = ctx->r9;
}
static __always_inline __u64 read_caller(struct pt_regs *ctx) {
  __u64 caller = 0;
  bpf_probe_read_user(&caller, sizeof(caller), (void *)ctx->rsp);
  return caller;
}
#elif defined(__TARGET_ARCH_arm64)
enum { IN_REGISTERS = 8, CALL_BYTES = 0 };  // a call puts it into register 30
static __always_inline void read_registers(struct pt_regs *ctx, __u64 *at) {
  const volatile struct user_pt_regs *registers = (const volatile struct user_pt_regs *)ctx;
  at[0] = registers->regs[0];
  at[1] = registers->regs[1];
  at[2] = registers->regs[2];
  at[3] = registers->regs[3];
  at[4] = registers->regs[4];
  at[5] = registers->regs[5];
  at[6] = registers->regs[6];
  at[7] = registers->regs[7];
}
static __always_inline __u64 read_caller(struct pt_regs *ctx) {
  return ((const volatile struct user_pt_regs *)ctx)->regs[30];
}
#else
#error "which registers hold arguments is known for x86-64 and AArch64 only"
#endif

static __always_inline void read_arguments(struct pt_regs *ctx, __u32 flags,
                                           struct arguments *all) {
  read_registers(ctx, all->at);
  if (flags & READS_STACK)
    bpf_probe_read_user(&all->at[IN_REGISTERS], (10 - IN_REGISTERS) * sizeof(__u64),
                        (void *)(PT_REGS_SP(ctx) + CALL_BYTES));
}

static __always_inline __u64 pack_block(__u64 x, __u64 y, __u64 z) {
  return (x & 0xffff) | (y & 0xffff) << 16 | (z & 0xffff) << 32;
}

// Words of a launch: function, grid x and y, grid z and shared bytes, block, stream.
static __always_inline void fill_words(struct frame *frame, const struct function *function,
                                       const struct arguments *all) {
  __u64 *words = frame->words;
  __u8 shape = function->shape;
  if (shape == GRID_BY_VALUE) {
    words[0] = all->at[0];
    words[1] = all->at[1];
    words[2] = (__u32)all->at[2] | all->at[6] << 32;
    words[3] = pack_block(all->at[3], all->at[3] >> 32, all->at[4]);
    words[4] = all->at[7];
  } else if (shape == GRID_BY_NUMBER) {
    words[0] = all->at[0];
    words[1] = (__u32)all->at[1] | all->at[2] << 32;
    words[2] = (__u32)all->at[3] | all->at[7] << 32;
    words[3] = pack_block(all->at[4], all->at[5], all->at[6]);
    words[4] = all->at[8];
  } else if (shape == CONFIG_RUNTIME || shape == CONFIG_DRIVER) {
    __u32 config[10] = {};
    bpf_probe_read_user(config, sizeof(config), (void *)all->at[0]);
    words[0] = all->at[1];
    words[1] = config[0] | (__u64)config[1] << 32;
    words[2] = config[2] | (__u64)config[6] << 32;
    words[3] = pack_block(config[3], config[4], config[5]);
    words[4] = config[8] | (__u64)config[9] << 32;  // both have the stream at byte 32
  } else {
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
      __u32 which = function->words[i];
      words[i] = which < 10 ? all->at[which] : which >= CONSTANT ? which - CONSTANT : 0;
    }
    __u32 factor = function->factor;
    if (factor < 10) words[2] *= all->at[factor];
    words[2] <<= function->shift & 63;
  }
}

SEC("uprobe")
int enter_call(struct pt_regs *ctx) {
  __u64 both = bpf_get_current_pid_tgid();
  __u32 pid = both >> 32, id = bpf_get_attach_cookie(ctx);
  struct function *function = bpf_map_lookup_elem(&functions, &id);
  if (!function) return 0;
  struct total *total = find_total(pid, id);
  if (total) total->entered++;

  struct thread *thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0,
                                               BPF_LOCAL_STORAGE_GET_F_CREATE);
  if (!thread) {
    note_miss(5);
    return 0;
  }
  __u32 depth = thread->depth;
  __u64 sp = PT_REGS_SP(ctx);
  // Calls that were left by a jump (longjmp, an exception) never return: they began further down on
  // the stack than where it is now, or at the same place.
#pragma unroll
  for (int i = 0; i < MAX_DEPTH; i++) {
    if (depth && depth <= MAX_DEPTH) {
      struct frame *top = frame_at(thread, depth - 1);
      if (top->sp < sp || (top->sp == sp && top->function == id)) depth--;
    }
  }
  if (depth >= MAX_DEPTH) {
    note_miss(3);
    return 0;
  }
  struct frame *frame = frame_at(thread, depth);
  struct arguments all = {};
  __u32 kind = function->kind, nested = 0;
  read_arguments(ctx, function->flags, &all);
  fill_words(frame, function, &all);
#pragma unroll
  for (int i = 0; i < MAX_DEPTH - 1; i++) {
    if (i < depth && thread->frames[i].kind == kind) nested = NESTED;
  }
  frame->sp = sp;
  frame->function = id;
  frame->kind = kind;
  frame->flags = nested;
  frame->pointer = all.at[0];
  __u32 text = function->text;
  frame->text = text < 6 ? all.at[text] : 0;
  frame->stack = -1;
  frame->caller = 0;
  if (takes_stacks) {
    frame->caller = read_caller(ctx);
    long stack = bpf_get_stackid(ctx, &stacks, BPF_F_USER_STACK);
    if (stack >= 0)
      frame->stack = stack;
    else
      note_miss(2);
  }
  thread->depth = depth + 1;
  if (kind == LAUNCH && !nested) {
    struct kernel_key key = {frame->words[0], pid, 0};
    add_count(&kernels, &key, 1, 1);
    if (counts_sizes) {
      __u64 grid = (__u64)(__u32)frame->words[1] * (frame->words[1] >> 32) * (__u32)frame->words[2];
      __u64 block = frame->words[3];
      add_size(pid, GRID_SIZE, grid);
      add_size(pid, BLOCK_SIZE,
               (block & 0xffff) * (block >> 16 & 0xffff) * (block >> 32 & 0xffff));
    }
  }
  if (counts_sizes && kind == COPY && !nested)
    add_size(pid, COPY_SIZE + (frame->words[3] & 7), frame->words[2]);
  frame->start = bpf_ktime_get_ns();  // last: the call's time is without the probe's own
  return 0;
}

static __always_inline void send_name(const struct frame *frame, __u32 pid, __u64 now) {
  struct name *name = bpf_ringbuf_reserve(&names, sizeof(*name), 0);
  if (!name) {
    note_miss(4);
    return;
  }
  __u64 handle = 0;
  bpf_probe_read_user(&handle, sizeof(handle), (void *)frame->pointer);
  name->time = now;
  name->handle = handle;
  name->other = frame->words[1];
  name->address = frame->text;
  name->pid = pid;
  name->function = frame->function;
  long length = frame->text ? bpf_probe_read_user_str(name->text, NAME_BYTES, (void *)frame->text)
                            : 0;
  name->length = length > 0 ? length - 1 : 0;
  bpf_ringbuf_submit(name, BPF_RB_NO_WAKEUP);
}

static __always_inline void send_record(const struct frame *frame, __u64 both, __u64 now,
                                        __s64 result, struct total *total) {
  struct record *record = bpf_ringbuf_reserve(&calls, sizeof(*record), 0);
  if (!record) {
    if (total) total->lost++;
    return;
  }
  record->start = frame->start;
  record->end = now;
  record->pid = both >> 32;
  record->tid = both;
  record->function = frame->function;
  record->flags = frame->flags;
  record->stack = frame->stack;
  record->result = result;
  record->caller = frame->caller;
#pragma unroll
  for (int i = 0; i < WORDS; i++) record->words[i] = frame->words[i];
  bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
}

SEC("uretprobe")
int leave_call(struct pt_regs *ctx) {
  __u64 now = bpf_ktime_get_ns();  // first, for the same reason
  __u64 both = bpf_get_current_pid_tgid();
  __u32 id = bpf_get_attach_cookie(ctx);
  struct thread *thread =
      bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
  if (!thread) return 0;
  __u32 depth = thread->depth;
  __u64 sp = PT_REGS_SP(ctx) - CALL_BYTES;  // as it was where the function began
  struct frame *frame = 0;
#pragma unroll
  for (int i = 0; i < MAX_DEPTH; i++) {
    if (!frame && depth && depth <= MAX_DEPTH) {
      struct frame *top = frame_at(thread, depth - 1);
      if (top->sp == sp && top->function == id)
        frame = top;
      else if (top->sp > sp)
        break;  // it was entered before the probes were there
      depth--;
    }
  }
  if (!frame) return 0;
  thread->depth = depth;
  __u32 pid = both >> 32;
  __s64 result = (__s32)PT_REGS_RC(ctx);
  struct function *function = bpf_map_lookup_elem(&functions, &id);
  struct total *total = find_total(pid, id);
  if (!function) return 0;
  if (total) {
    total->returned++;
    total->duration += now - frame->start;
    if (result && !(function->flags & RETURNS_NOTHING)) total->failed++;
  }
  if (function->flags & RETURNS_POINTER) {
    frame->words[0] = 0;  // until here, where the result would be put
    if (result == 0) bpf_probe_read_user(&frame->words[0], sizeof(__u64), (void *)frame->pointer);
  }
  __u32 kind = function->kind;
  if (kind == NAME) {
    if (result == 0 || function->flags & RETURNS_NOTHING) send_name(frame, pid, now);
    return 0;
  }
  if (total && result == 0 && !(frame->flags & NESTED) && (kind == COPY || kind == FILL ||
      kind == ALLOCATE))
    total->bytes += frame->words[kind == ALLOCATE ? 1 : 2];
  if (records_calls) send_record(frame, both, now, result, total);
  return 0;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";

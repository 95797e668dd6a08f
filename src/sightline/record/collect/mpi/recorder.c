// What a rank of an MPI program asks of MPI: every call that sends, receives or waits, into a file.
//
// Built with the program's own mpicc and preloaded, so that MPI_Send is ours and PMPI_Send is the
// library's (MPI 4.1, 15.2, "Profiling Interface"). The file, rankR-HOST-PID.mpi, is described in
// src/sightline/core/model/mpi_file.py. Records are kept until 4,096 are there, a second has passed or
// the process ends; of a process that is killed the last ones are lost.
//
// It asks MPI for nothing that another rank would have to answer: some may not be recorded.
// Communicators carry their members' ranks of the world, and a number on which these agree, as an
// attribute. What is not made here (MPI_Comm_idup, communicators between groups) has neither.

#define _GNU_SOURCE
#include <mpi.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { VERSION = 1, ROOM = 4096, HEADER_BYTES = 4096, NAMES_AT = 128, NONE = -1, ALIKE = 1024 };
// What a record is: the call itself, or one more message that it sends, receives or completes.
enum { CALL, SEND, RECEIVE, POST_SEND, POST_RECEIVE, COMPLETED, COLLECTIVE };

struct header {
    char magic[16];
    uint32_t version, pid;
    int32_t rank, size;
    int64_t begin_ns, begin_wall_ns, end_ns, end_wall_ns;  // the monotonic and the wall clock
    uint32_t record_bytes, is_ended;
    int64_t lost;
};

struct record {
    int64_t start_ns, end_ns, bytes, received, request;
    uint32_t thread, group;  // NO_GROUP: not known
    uint16_t routine, what;
    int32_t group_size, peer, peer_rank, root, root_rank, tag, unused;
};

#define NO_GROUP UINT32_MAX

#define ROUTINES(R)                                                                               \
    R(Init) R(Init_thread) R(Finalize) R(Send) R(Bsend) R(Ssend) R(Rsend) R(Isend) R(Ibsend)       \
    R(Issend) R(Irsend) R(Recv) R(Irecv) R(Sendrecv) R(Sendrecv_replace) R(Probe) R(Mprobe)        \
    R(Mrecv) R(Send_init) R(Recv_init) R(Start) R(Startall) R(Wait) R(Waitall) R(Waitany)          \
    R(Waitsome) R(Test) R(Testall) R(Testany) R(Testsome) R(Barrier) R(Bcast) R(Reduce)            \
    R(Allreduce) R(Gather) R(Gatherv) R(Scatter) R(Scatterv) R(Allgather) R(Allgatherv)            \
    R(Alltoall) R(Alltoallv) R(Alltoallw) R(Reduce_scatter) R(Reduce_scatter_block) R(Scan)        \
    R(Exscan) R(Ibarrier) R(Ibcast) R(Ireduce) R(Iallreduce) R(Igather) R(Iscatter) R(Iallgather)  \
    R(Ialltoall) R(Comm_dup) R(Comm_split) R(Comm_split_type) R(Comm_create) R(Comm_create_group)  \
    R(Cart_create) R(Cart_sub) R(Graph_create) R(Dist_graph_create) R(Dist_graph_create_adjacent)

enum routine {
#define NUMBER(name) ROUTINE_##name,
    ROUTINES(NUMBER)
#undef NUMBER
};

static const char kNames[] =
#define TEXT(name) "MPI_" #name "\n"
    ROUTINES(TEXT);
#undef TEXT

struct members {
    uint32_t group;
    int size;
    int world[];  // each member's rank of the world
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct record kept[ROOM];
static int count, file = -1, key = MPI_KEYVAL_INVALID;
static int64_t flushed_ns;
static struct header header;
static struct members *world_members;

static int64_t read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int64_t now(void) { return read_clock(CLOCK_MONOTONIC); }

// Both clocks, read as close together as eight tries get them.
static void read_clocks(int64_t *monotonic, int64_t *wall) {
    int64_t closest = INT64_MAX;
    for (int i = 0; i < 8; ++i) {
        const int64_t before = now(), between = read_clock(CLOCK_REALTIME), after = now();
        if (after - before < closest) {
            closest = after - before;
            *monotonic = before + closest / 2;
            *wall = between;
        }
    }
}

static void write_all(const void *data, size_t size) {
    const char *at = data;
    while (size > 0) {
        const ssize_t done = write(file, at, size);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {  // a full disk must not end the program
            header.lost += (int64_t)(size / sizeof(struct record));
            return;
        }
        at += done;
        size -= (size_t)done;
    }
}

static void flush(void) {
    if (file >= 0 && count > 0) {
        write_all(kept, (size_t)count * sizeof *kept);
    }
    count = 0;
    flushed_ns = now();
}

static uint32_t find_thread(void) {
    static __thread uint32_t number;
    if (!number) {
        number = (uint32_t)syscall(SYS_gettid);
    }
    return number;
}

static struct record make_record(enum routine routine, int what, int64_t start, int64_t end) {
    return (struct record){
        .start_ns = start,
        .end_ns = end,
        .bytes = NONE,
        .received = NONE,
        .request = NONE,
        .thread = find_thread(),
        .group = NO_GROUP,
        .routine = (uint16_t)routine,
        .what = (uint16_t)what,
        .group_size = NONE,
        .peer = NONE,
        .peer_rank = NONE,
        .root = NONE,
        .root_rank = NONE,
        .tag = NONE,
    };
}

static void keep(const struct record *record) {
    if (file < 0) {
        return;
    }
    pthread_mutex_lock(&lock);
    if (count == ROOM || record->end_ns - flushed_ns > 1000000000LL) {
        flush();
    }
    kept[count++] = *record;
    pthread_mutex_unlock(&lock);
}

// -- communicators --------------------------------------------------------------------------------

static int forget_members(MPI_Comm comm, int keyval, void *value, void *extra) {
    (void)comm, (void)keyval, (void)extra;
    free(value);
    return MPI_SUCCESS;
}

static struct members *find_members(MPI_Comm comm) {
    if (comm == MPI_COMM_WORLD) {
        return world_members;
    }
    struct members *found = NULL;
    int is_set = 0;
    if (key != MPI_KEYVAL_INVALID && comm != MPI_COMM_NULL) {
        PMPI_Comm_get_attr(comm, key, &found, &is_set);
    }
    return is_set ? found : NULL;
}

static struct members *list_members(MPI_Comm comm, uint32_t group) {
    MPI_Group own, world;
    int size;
    PMPI_Comm_size(comm, &size);
    struct members *found = malloc(sizeof *found + sizeof(int[2]) * (size_t)size);
    if (found == NULL) {
        return NULL;
    }
    int *numbers = found->world + size;
    for (int i = 0; i < size; ++i) {
        numbers[i] = i;
    }
    PMPI_Comm_group(comm, &own);
    PMPI_Comm_group(MPI_COMM_WORLD, &world);
    PMPI_Group_translate_ranks(own, size, numbers, world, found->world);
    PMPI_Group_free(&own);
    PMPI_Group_free(&world);
    found->group = group;
    found->size = size;
    return found;
}

// The number of communicators with these members so far. All members make them in one order, so
// that the number says which one it is, without a message that a rank may not know of.
static uint32_t count_alike(uint32_t hash) {
    static struct {
        uint32_t hash, made;
    } known[ALIKE];
    for (uint32_t i = 0; i < ALIKE; ++i) {
        if (known[i].made == 0 || known[i].hash == hash) {
            known[i].hash = hash;
            return ++known[i].made;
        }
    }
    return 0;
}

// A communicator that has just been made: who is in it, and a number that its members agree on.
static void number_members(MPI_Comm *comm) {
    int is_inter = 1;
    if (file < 0 || key == MPI_KEYVAL_INVALID || comm == NULL || *comm == MPI_COMM_NULL) {
        return;
    }
    PMPI_Comm_test_inter(*comm, &is_inter);
    struct members *found = is_inter ? NULL : list_members(*comm, 0);
    if (found == NULL) {
        return;
    }
    uint32_t hash = 2166136261u;  // FNV-1a
    for (int i = 0; i < found->size; ++i) {
        hash = (hash ^ (uint32_t)found->world[i]) * 16777619u;
    }
    pthread_mutex_lock(&lock);
    const uint32_t nth = count_alike(hash);
    pthread_mutex_unlock(&lock);
    found->group = nth == 0 ? NO_GROUP : ((hash ^ nth) * 16777619u) & INT32_MAX;
    PMPI_Comm_set_attr(*comm, key, found);
}

static void tell_members(struct record *record, MPI_Comm comm) {
    const struct members *found = find_members(comm);
    if (found != NULL) {
        record->group = found->group;
        record->group_size = found->size;
    }
}

static int find_world(MPI_Comm comm, int rank) {
    const struct members *found = find_members(comm);
    return found != NULL && rank >= 0 && rank < found->size ? found->world[rank] : NONE;
}

// -- requests -------------------------------------------------------------------------------------

// What is known of a request that is under way: which communicator its peer is a rank of.
struct request {
    int64_t handle;
    MPI_Comm comm;
    int peer, tag;
    int64_t bytes;
    uint8_t is_used, is_receive, is_persistent;
};

enum { REQUESTS = 1 << 14, TRIES = 64 };
static struct request requests[REQUESTS];

static int64_t name_request(MPI_Request request) { return (int64_t)PMPI_Request_c2f(request); }

static struct request *find_request(int64_t handle, int make) {
    struct request *room = NULL;
    for (uint32_t i = 0; i < TRIES; ++i) {
        struct request *at = &requests[((uint64_t)handle * 2654435761u + i) % REQUESTS];
        if (at->is_used && at->handle == handle) {
            return at;
        }
        if (!at->is_used && room == NULL) {
            room = at;
        }
    }
    if (!make || room == NULL) {
        return NULL;  // a program with more under way: their completions lack what is known here
    }
    *room = (struct request){.handle = handle, .is_used = 1};
    return room;
}

static int64_t measure(int n, MPI_Datatype type) {
    int size = 0;
    if (n < 0 || PMPI_Type_size(type, &size) != MPI_SUCCESS || size < 0) {
        return NONE;
    }
    return (int64_t)n * size;
}

static void keep_message(enum routine routine, int what, int64_t start, int64_t end, int n,
                         MPI_Datatype type, int peer, int tag, MPI_Comm comm, int64_t request) {
    if (file < 0) {
        return;
    }
    struct record record = make_record(routine, what, start, end);
    record.bytes = measure(n, type);
    record.peer = peer;
    record.peer_rank = find_world(comm, peer);
    record.tag = tag;
    record.request = request;
    tell_members(&record, comm);
    keep(&record);
}

static void keep_post(enum routine routine, int what, int64_t start, int64_t end, int n,
                      MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Request *request,
                      int is_persistent) {
    if (file < 0 || request == NULL || *request == MPI_REQUEST_NULL) {
        return;
    }
    const int64_t handle = name_request(*request);
    pthread_mutex_lock(&lock);
    struct request *known = find_request(handle, 1);
    if (known != NULL) {
        known->comm = comm;
        known->peer = peer;
        known->tag = tag;
        known->bytes = measure(n, type);
        known->is_receive = what == POST_RECEIVE;
        known->is_persistent = (uint8_t)is_persistent;
    }
    pthread_mutex_unlock(&lock);
    if (is_persistent) {
        struct record record = make_record(routine, CALL, start, end);
        keep(&record);
    } else {
        keep_message(routine, what, start, end, n, type, peer, tag, comm, handle);
    }
}

// A request that a call has completed, with what its status says of a message that was received.
static void keep_completion(enum routine routine, int64_t start, int64_t end, int64_t handle,
                            MPI_Status *status) {
    struct record record = make_record(routine, COMPLETED, start, end);
    record.request = handle;
    pthread_mutex_lock(&lock);
    struct request *known = find_request(handle, 0);
    const struct request copy = known != NULL ? *known : (struct request){0};
    if (known != NULL && !known->is_persistent) {
        known->is_used = 0;
    }
    pthread_mutex_unlock(&lock);
    if (copy.is_used && copy.is_receive && status != NULL) {
        int n = 0;
        record.peer = status->MPI_SOURCE;
        record.tag = status->MPI_TAG;
        record.peer_rank = find_world(copy.comm, record.peer);
        if (PMPI_Get_count(status, MPI_BYTE, &n) == MPI_SUCCESS && n >= 0) {
            record.bytes = n;
        }
        tell_members(&record, copy.comm);
    }
    keep(&record);
}

static void keep_start(enum routine routine, int64_t start, int64_t end, MPI_Request request) {
    const int64_t handle = name_request(request);
    pthread_mutex_lock(&lock);
    struct request *known = find_request(handle, 0);
    const struct request copy = known != NULL ? *known : (struct request){0};
    pthread_mutex_unlock(&lock);
    if (!copy.is_used) {
        return;
    }
    struct record record =
        make_record(routine, copy.is_receive ? POST_RECEIVE : POST_SEND, start, end);
    record.bytes = copy.bytes;
    record.peer = copy.peer;
    record.peer_rank = find_world(copy.comm, copy.peer);
    record.tag = copy.tag;
    record.request = handle;
    tell_members(&record, copy.comm);
    keep(&record);
}

static void keep_call(enum routine routine, int64_t start) {
    struct record record = make_record(routine, CALL, start, now());
    keep(&record);
}

static void keep_collective(enum routine routine, int64_t start, MPI_Comm comm, int root,
                            int64_t bytes, int64_t received, MPI_Request *request) {
    if (file < 0) {
        return;
    }
    struct record record = make_record(routine, COLLECTIVE, start, now());
    record.bytes = bytes;
    record.received = received;
    record.root = root;
    record.root_rank = find_world(comm, root);
    if (request != NULL && *request != MPI_REQUEST_NULL) {
        record.request = name_request(*request);
    }
    tell_members(&record, comm);
    keep(&record);
}

// -- begin and end --------------------------------------------------------------------------------

static void write_header(void) {
    char page[HEADER_BYTES] = {0};
    memcpy(page, &header, sizeof header);
    _Static_assert(NAMES_AT + sizeof kNames <= HEADER_BYTES, "the names fit the header");
    memcpy(page + NAMES_AT, kNames, sizeof kNames);
    if (pwrite(file, page, sizeof page, 0) != (ssize_t)sizeof page) {
        close(file);
        file = -1;
    }
}

static void end_file(void) {
    if (file < 0) {
        return;
    }
    pthread_mutex_lock(&lock);
    flush();
    header.is_ended = 1;
    read_clocks(&header.end_ns, &header.end_wall_ns);
    write_header();
    if (file >= 0) {
        close(file);
    }
    file = -1;
    pthread_mutex_unlock(&lock);
}

// What a fork makes is no rank.
static void drop_file(void) {
    file = -1;
    count = 0;
}

static int is_chosen(int rank) {
    const char *ranks = getenv("SIGHTLINE_MPI_RANKS"), *every = getenv("SIGHTLINE_MPI_EVERY");
    if (every != NULL && atoi(every) > 1 && rank % atoi(every) != 0) {
        return 0;
    }
    while (ranks != NULL && *ranks != '\0') {
        char *behind;
        if (strtol(ranks, &behind, 10) == rank && behind != ranks) {
            return 1;
        }
        ranks = strchr(behind, ',');
        ranks = ranks == NULL ? NULL : ranks + 1;
        if (ranks == NULL) {
            return 0;
        }
    }
    return 1;
}

static void begin_file(enum routine routine, int64_t start) {
    const char *folder = getenv("SIGHTLINE_MPI_FOLDER"), *host = getenv("SIGHTLINE_MPI_HOST");
    char path[4096];
    int size;
    if (folder == NULL || host == NULL || file >= 0) {
        return;
    }
    memcpy(header.magic, "SIGHTLINE-MPI\n\0", 16);
    header.version = VERSION;
    header.pid = (uint32_t)getpid();
    header.record_bytes = sizeof(struct record);
    PMPI_Comm_rank(MPI_COMM_WORLD, &header.rank);
    PMPI_Comm_size(MPI_COMM_WORLD, &size);
    header.size = size;
    read_clocks(&header.begin_ns, &header.begin_wall_ns);
    const int length = snprintf(path, sizeof path, "%s/rank%d-%s-%u.mpi", folder, header.rank, host,
                                header.pid);
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget_members, &key, NULL);
    world_members = list_members(MPI_COMM_WORLD, 0);
    if (!is_chosen(header.rank) || length <= 0 || length >= (int)sizeof path) {
        return;
    }
    file = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0666);
    if (file < 0) {
        return;
    }
    flushed_ns = now();
    write_header();
    if (file >= 0) {
        lseek(file, HEADER_BYTES, SEEK_SET);
        pthread_atfork(NULL, NULL, drop_file);
        atexit(end_file);
        keep_call(routine, start);
    }
}

#define BEGIN const int64_t start = now()

int MPI_Init(int *argc, char ***argv) {
    BEGIN;
    const int code = PMPI_Init(argc, argv);
    begin_file(ROUTINE_Init, start);
    return code;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    BEGIN;
    const int code = PMPI_Init_thread(argc, argv, required, provided);
    begin_file(ROUTINE_Init_thread, start);
    return code;
}

int MPI_Finalize(void) {
    BEGIN;
    const int code = PMPI_Finalize();
    keep_call(ROUTINE_Finalize, start);
    end_file();
    return code;
}

// -- messages -------------------------------------------------------------------------------------

// How many bytes came, NONE where none did; from whom and with which tag, where any would do.
static int read_received(int code, const MPI_Status *told, int *peer, int *tag) {
    int bytes = NONE;
    if (code == MPI_SUCCESS) {
        PMPI_Get_count(told, MPI_BYTE, &bytes);
        *peer = told->MPI_SOURCE;
        *tag = told->MPI_TAG;
    }
    return bytes;
}

#define SENDS(name)                                                                                \
    int MPI_##name(const void *data, int n, MPI_Datatype type, int peer, int tag, MPI_Comm comm) { \
        BEGIN;                                                                                     \
        const int code = PMPI_##name(data, n, type, peer, tag, comm);                              \
        keep_message(ROUTINE_##name, SEND, start, now(), n, type, peer, tag, comm, NONE);          \
        return code;                                                                               \
    }
SENDS(Send)
SENDS(Bsend)
SENDS(Ssend)
SENDS(Rsend)

#define POSTS(name, is_persistent)                                                                 \
    int MPI_##name(const void *data, int n, MPI_Datatype type, int peer, int tag, MPI_Comm comm,   \
                   MPI_Request *request) {                                                         \
        BEGIN;                                                                                     \
        const int code = PMPI_##name(data, n, type, peer, tag, comm, request);                     \
        keep_post(ROUTINE_##name, POST_SEND, start, now(), n, type, peer, tag, comm, request,      \
                  is_persistent);                                                                  \
        return code;                                                                               \
    }
POSTS(Isend, 0)
POSTS(Ibsend, 0)
POSTS(Issend, 0)
POSTS(Irsend, 0)
POSTS(Send_init, 1)

int MPI_Recv(void *data, int n, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
             MPI_Status *status) {
    MPI_Status own;
    MPI_Status *told = status == MPI_STATUS_IGNORE ? &own : status;
    BEGIN;
    const int code = PMPI_Recv(data, n, type, peer, tag, comm, told);
    const int64_t end = now();
    const int bytes = read_received(code, told, &peer, &tag);
    keep_message(ROUTINE_Recv, RECEIVE, start, end, bytes, MPI_BYTE, peer, tag, comm, NONE);
    return code;
}

int MPI_Irecv(void *data, int n, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
              MPI_Request *request) {
    BEGIN;
    const int code = PMPI_Irecv(data, n, type, peer, tag, comm, request);
    keep_post(ROUTINE_Irecv, POST_RECEIVE, start, now(), n, type, peer, tag, comm, request, 0);
    return code;
}

int MPI_Recv_init(void *data, int n, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                  MPI_Request *request) {
    BEGIN;
    const int code = PMPI_Recv_init(data, n, type, peer, tag, comm, request);
    keep_post(ROUTINE_Recv_init, POST_RECEIVE, start, now(), n, type, peer, tag, comm, request, 1);
    return code;
}

int MPI_Start(MPI_Request *request) {
    BEGIN;
    const int code = PMPI_Start(request);
    keep_start(ROUTINE_Start, start, now(), *request);
    return code;
}

int MPI_Startall(int n, MPI_Request *several) {
    BEGIN;
    const int code = PMPI_Startall(n, several);
    const int64_t end = now();
    for (int i = 0; file >= 0 && i < n; ++i) {
        keep_start(ROUTINE_Startall, start, end, several[i]);
    }
    return code;
}

int MPI_Sendrecv(const void *data, int n, MPI_Datatype type, int to, int tag, void *room, int most,
                 MPI_Datatype other, int from, int other_tag, MPI_Comm comm, MPI_Status *status) {
    MPI_Status own;
    MPI_Status *told = status == MPI_STATUS_IGNORE ? &own : status;
    BEGIN;
    const int code =
        PMPI_Sendrecv(data, n, type, to, tag, room, most, other, from, other_tag, comm, told);
    const int64_t end = now();
    const int bytes = read_received(code, told, &from, &other_tag);
    keep_message(ROUTINE_Sendrecv, SEND, start, end, n, type, to, tag, comm, NONE);
    keep_message(ROUTINE_Sendrecv, RECEIVE, start, end, bytes, MPI_BYTE, from, other_tag, comm,
                 NONE);
    return code;
}

int MPI_Sendrecv_replace(void *data, int n, MPI_Datatype type, int to, int tag, int from,
                         int other_tag, MPI_Comm comm, MPI_Status *status) {
    MPI_Status own;
    MPI_Status *told = status == MPI_STATUS_IGNORE ? &own : status;
    BEGIN;
    const int code = PMPI_Sendrecv_replace(data, n, type, to, tag, from, other_tag, comm, told);
    const int64_t end = now();
    if (code == MPI_SUCCESS) {
        from = told->MPI_SOURCE;
        other_tag = told->MPI_TAG;
    }
    keep_message(ROUTINE_Sendrecv_replace, SEND, start, end, n, type, to, tag, comm, NONE);
    keep_message(ROUTINE_Sendrecv_replace, RECEIVE, start, end, n, type, from, other_tag, comm,
                 NONE);
    return code;
}

int MPI_Probe(int peer, int tag, MPI_Comm comm, MPI_Status *status) {
    BEGIN;
    const int code = PMPI_Probe(peer, tag, comm, status);
    keep_call(ROUTINE_Probe, start);
    return code;
}

// Who is asked here: mpi4py receives Python's objects by MPI_Mprobe and MPI_Mrecv. The message is
// received from the probe on; it is told there, where the wait is.
int MPI_Mprobe(int peer, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
    MPI_Status own;
    MPI_Status *told = status == MPI_STATUS_IGNORE ? &own : status;
    BEGIN;
    const int code = PMPI_Mprobe(peer, tag, comm, message, told);
    const int64_t end = now();
    const int bytes = read_received(code, told, &peer, &tag);
    keep_message(ROUTINE_Mprobe, RECEIVE, start, end, bytes, MPI_BYTE, peer, tag, comm, NONE);
    return code;
}

int MPI_Mrecv(void *data, int n, MPI_Datatype type, MPI_Message *message, MPI_Status *status) {
    BEGIN;
    const int code = PMPI_Mrecv(data, n, type, message, status);
    keep_call(ROUTINE_Mrecv, start);
    return code;
}

// -- completions ----------------------------------------------------------------------------------

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    MPI_Status own;
    MPI_Status *told = status == MPI_STATUS_IGNORE ? &own : status;
    const int is_none = file < 0 || *request == MPI_REQUEST_NULL;
    const int64_t handle = is_none ? NONE : name_request(*request);
    BEGIN;
    const int code = PMPI_Wait(request, told);
    if (is_none) {
        keep_call(ROUTINE_Wait, start);
    } else {
        keep_completion(ROUTINE_Wait, start, now(), handle, told);
    }
    return code;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    MPI_Status own;
    MPI_Status *told = status == MPI_STATUS_IGNORE ? &own : status;
    const int is_none = file < 0 || *request == MPI_REQUEST_NULL;
    const int64_t handle = is_none ? NONE : name_request(*request);
    BEGIN;
    const int code = PMPI_Test(request, flag, told);
    if (*flag && !is_none) {
        keep_completion(ROUTINE_Test, start, now(), handle, told);
    }
    return code;
}

// The handles of several requests before a call, which sets those that it completes to null.
struct several {
    int n;
    int64_t *handles;
    MPI_Status *statuses;
};

static struct several name_several(int n, const MPI_Request *requests_of, MPI_Status *statuses,
                                   int needs_statuses) {
    struct several found = {n, NULL, statuses};
    if (file < 0 || n <= 0) {
        return found;
    }
    found.handles = malloc((size_t)n * sizeof *found.handles);
    for (int i = 0; found.handles != NULL && i < n; ++i) {
        found.handles[i] =
            requests_of[i] == MPI_REQUEST_NULL ? NONE : name_request(requests_of[i]);
    }
    if (needs_statuses && statuses == MPI_STATUSES_IGNORE && found.handles != NULL) {
        MPI_Status *room = malloc((size_t)n * sizeof *room);
        found.statuses = room != NULL ? room : statuses;
    }
    return found;
}

static void forget_several(struct several *several, MPI_Status *statuses) {
    free(several->handles);
    if (several->statuses != statuses) {
        free(several->statuses);
    }
}

static void keep_several(enum routine routine, int64_t start, const struct several *several,
                         const int *which, int n) {
    const int64_t end = now();
    int told = 0;
    for (int i = 0; several->handles != NULL && i < n; ++i) {
        const int at = which != NULL ? which[i] : i;
        if (at < 0 || at >= several->n || several->handles[at] == NONE) {
            continue;
        }
        MPI_Status *status =
            several->statuses == MPI_STATUSES_IGNORE ? NULL : &several->statuses[i];
        keep_completion(routine, start, end, several->handles[at], status);
        told = 1;
    }
    if (!told) {
        struct record record = make_record(routine, CALL, start, end);
        keep(&record);
    }
}

int MPI_Waitall(int n, MPI_Request *list, MPI_Status *statuses) {
    struct several several = name_several(n, list, statuses, 1);
    BEGIN;
    const int code = PMPI_Waitall(n, list, several.statuses);
    keep_several(ROUTINE_Waitall, start, &several, NULL, n);
    forget_several(&several, statuses);
    return code;
}

int MPI_Testall(int n, MPI_Request *list, int *flag, MPI_Status *statuses) {
    struct several several = name_several(n, list, statuses, 1);
    BEGIN;
    const int code = PMPI_Testall(n, list, flag, several.statuses);
    if (*flag) {
        keep_several(ROUTINE_Testall, start, &several, NULL, n);
    }
    forget_several(&several, statuses);
    return code;
}

int MPI_Waitany(int n, MPI_Request *list, int *index, MPI_Status *status) {
    MPI_Status own;
    MPI_Status *told = status == MPI_STATUS_IGNORE ? &own : status;
    struct several several = name_several(n, list, MPI_STATUSES_IGNORE, 0);
    BEGIN;
    const int code = PMPI_Waitany(n, list, index, told);
    several.statuses = told;
    keep_several(ROUTINE_Waitany, start, &several, index, 1);
    free(several.handles);
    return code;
}

int MPI_Testany(int n, MPI_Request *list, int *index, int *flag, MPI_Status *status) {
    MPI_Status own;
    MPI_Status *told = status == MPI_STATUS_IGNORE ? &own : status;
    struct several several = name_several(n, list, MPI_STATUSES_IGNORE, 0);
    BEGIN;
    const int code = PMPI_Testany(n, list, index, flag, told);
    several.statuses = told;
    if (*flag) {
        keep_several(ROUTINE_Testany, start, &several, index, 1);
    }
    free(several.handles);
    return code;
}

#define COMPLETES_SOME(name)                                                                       \
    int MPI_##name(int n, MPI_Request *list, int *many, int *which, MPI_Status *statuses) {        \
        struct several several = name_several(n, list, statuses, 1);                               \
        BEGIN;                                                                                     \
        const int code = PMPI_##name(n, list, many, which, several.statuses);                      \
        if (*many != MPI_UNDEFINED && *many > 0) {                                                 \
            keep_several(ROUTINE_##name, start, &several, which, *many);                           \
        }                                                                                          \
        forget_several(&several, statuses);                                                        \
        return code;                                                                               \
    }
COMPLETES_SOME(Waitsome)
COMPLETES_SOME(Testsome)

// -- collectives ----------------------------------------------------------------------------------

// A wrapper: the parameters, the arguments, and what is known of root, bytes and request.
#define COLLECTS(name, parameters, arguments, root, sent, received, request)                       \
    int MPI_##name parameters {                                                                    \
        BEGIN;                                                                                     \
        const int code = PMPI_##name arguments;                                                    \
        keep_collective(ROUTINE_##name, start, comm, root, sent, received, request);               \
        return code;                                                                               \
    }
#define IN const void *in, int n, MPI_Datatype type
#define OUT void *out, int m, MPI_Datatype other
#define INTO void *out, int n, MPI_Datatype type, MPI_Op op
#define SENT measure(n, type)
#define GOT measure(m, other)

COLLECTS(Barrier, (MPI_Comm comm), (comm), NONE, NONE, NONE, NULL)
COLLECTS(Ibarrier, (MPI_Comm comm, MPI_Request *request), (comm, request), NONE, NONE, NONE,
         request)
COLLECTS(Bcast, (void *out, int n, MPI_Datatype type, int root, MPI_Comm comm),
         (out, n, type, root, comm), root, SENT, SENT, NULL)
COLLECTS(Ibcast,
         (void *out, int n, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request),
         (out, n, type, root, comm, request), root, SENT, SENT, request)
COLLECTS(Reduce, (const void *in, INTO, int root, MPI_Comm comm),
         (in, out, n, type, op, root, comm), root, SENT, SENT, NULL)
COLLECTS(Ireduce, (const void *in, INTO, int root, MPI_Comm comm, MPI_Request *request),
         (in, out, n, type, op, root, comm, request), root, SENT, SENT, request)
COLLECTS(Allreduce, (const void *in, INTO, MPI_Comm comm), (in, out, n, type, op, comm), NONE, SENT,
         SENT, NULL)
COLLECTS(Iallreduce, (const void *in, INTO, MPI_Comm comm, MPI_Request *request),
         (in, out, n, type, op, comm, request), NONE, SENT, SENT, request)
COLLECTS(Scan, (const void *in, INTO, MPI_Comm comm), (in, out, n, type, op, comm), NONE, SENT,
         SENT, NULL)
COLLECTS(Exscan, (const void *in, INTO, MPI_Comm comm), (in, out, n, type, op, comm), NONE, SENT,
         SENT, NULL)
COLLECTS(Gather, (IN, OUT, int root, MPI_Comm comm), (in, n, type, out, m, other, root, comm), root,
         SENT, GOT, NULL)
COLLECTS(Igather, (IN, OUT, int root, MPI_Comm comm, MPI_Request *request),
         (in, n, type, out, m, other, root, comm, request), root, SENT, GOT, request)
COLLECTS(Gatherv,
         (IN, void *out, const int *counts, const int *places, MPI_Datatype other, int root,
          MPI_Comm comm),
         (in, n, type, out, counts, places, other, root, comm), root, SENT, NONE, NULL)
COLLECTS(Scatter, (IN, OUT, int root, MPI_Comm comm), (in, n, type, out, m, other, root, comm),
         root, SENT, GOT, NULL)
COLLECTS(Iscatter, (IN, OUT, int root, MPI_Comm comm, MPI_Request *request),
         (in, n, type, out, m, other, root, comm, request), root, SENT, GOT, request)
COLLECTS(Scatterv,
         (const void *in, const int *counts, const int *places, MPI_Datatype type, OUT, int root,
          MPI_Comm comm),
         (in, counts, places, type, out, m, other, root, comm), root, NONE, GOT, NULL)
COLLECTS(Allgather, (IN, OUT, MPI_Comm comm), (in, n, type, out, m, other, comm), NONE, SENT, GOT,
         NULL)
COLLECTS(Iallgather, (IN, OUT, MPI_Comm comm, MPI_Request *request),
         (in, n, type, out, m, other, comm, request), NONE, SENT, GOT, request)
COLLECTS(Allgatherv,
         (IN, void *out, const int *counts, const int *places, MPI_Datatype other, MPI_Comm comm),
         (in, n, type, out, counts, places, other, comm), NONE, SENT, NONE, NULL)
COLLECTS(Alltoall, (IN, OUT, MPI_Comm comm), (in, n, type, out, m, other, comm), NONE, SENT, GOT,
         NULL)
COLLECTS(Ialltoall, (IN, OUT, MPI_Comm comm, MPI_Request *request),
         (in, n, type, out, m, other, comm, request), NONE, SENT, GOT, request)
COLLECTS(Alltoallv,
         (const void *in, const int *counts, const int *places, MPI_Datatype type, void *out,
          const int *theirs, const int *places_of, MPI_Datatype other, MPI_Comm comm),
         (in, counts, places, type, out, theirs, places_of, other, comm), NONE, NONE, NONE, NULL)
COLLECTS(Alltoallw,
         (const void *in, const int counts[], const int places[], const MPI_Datatype types[],
          void *out, const int theirs[], const int places_of[], const MPI_Datatype others[],
          MPI_Comm comm),
         (in, counts, places, types, out, theirs, places_of, others, comm), NONE, NONE, NONE, NULL)
COLLECTS(Reduce_scatter,
         (const void *in, void *out, const int counts[], MPI_Datatype type, MPI_Op op,
          MPI_Comm comm),
         (in, out, counts, type, op, comm), NONE, NONE, NONE, NULL)
COLLECTS(Reduce_scatter_block, (const void *in, INTO, MPI_Comm comm), (in, out, n, type, op, comm),
         NONE, SENT, SENT, NULL)

// -- communicators that programs make -------------------------------------------------------------

#define MAKES(name, parameters, arguments)                                                         \
    int MPI_##name parameters {                                                                    \
        BEGIN;                                                                                     \
        const int code = PMPI_##name arguments;                                                    \
        if (code == MPI_SUCCESS) {                                                                 \
            number_members(made_comm);                                                             \
        }                                                                                          \
        keep_call(ROUTINE_##name, start);                                                          \
        return code;                                                                               \
    }
MAKES(Comm_dup, (MPI_Comm comm, MPI_Comm *made_comm), (comm, made_comm))
MAKES(Comm_split, (MPI_Comm comm, int color, int order, MPI_Comm *made_comm),
      (comm, color, order, made_comm))
MAKES(Comm_split_type, (MPI_Comm comm, int type, int order, MPI_Info info, MPI_Comm *made_comm),
      (comm, type, order, info, made_comm))
MAKES(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *made_comm), (comm, group, made_comm))
MAKES(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made_comm),
      (comm, group, tag, made_comm))
MAKES(Cart_create,
      (MPI_Comm comm, int n, const int *sizes, const int *periodic, int reorder,
       MPI_Comm *made_comm),
      (comm, n, sizes, periodic, reorder, made_comm))
MAKES(Cart_sub, (MPI_Comm comm, const int *remain, MPI_Comm *made_comm), (comm, remain, made_comm))
MAKES(Graph_create,
      (MPI_Comm comm, int n, const int *index, const int *edges, int reorder, MPI_Comm *made_comm),
      (comm, n, index, edges, reorder, made_comm))
MAKES(Dist_graph_create_adjacent,
      (MPI_Comm comm, int in, const int *sources, const int *weights, int out, const int *targets,
       const int *others, MPI_Info info, int reorder, MPI_Comm *made_comm),
      (comm, in, sources, weights, out, targets, others, info, reorder, made_comm))
MAKES(Dist_graph_create,
      (MPI_Comm comm, int n, const int *sources, const int *degrees, const int *targets,
       const int *weights, MPI_Info info, int reorder, MPI_Comm *made_comm),
      (comm, n, sources, degrees, targets, weights, info, reorder, made_comm))

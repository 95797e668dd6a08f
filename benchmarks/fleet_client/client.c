/* A program that asks a daemon for orders as Kineto does, every five seconds, and writes a trace that
 * was made before: client DOOR TRACE. DOOR is a folder of sockets, or "" for the names that belong to the
 * network's namespace. Its rank, job and the rest are in its environment. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { HEAD = 40, PERIOD_MS = 5000 };

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

static void sleep_ms(int64_t ms) {
    if (ms > 0) usleep((useconds_t)(ms * 1000));
}

/* On the clock that all processes of the machine share, whatever the time of day is here. */
static void note_start(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    printf("%lld\n", t.tv_sec * 1000000000LL + t.tv_nsec);
    fflush(stdout);
}

static const char *find_value(const char *orders, const char *key) {
    const char *at = strstr(orders, key);
    return at ? at + strlen(key) : NULL;
}

static void record(const char *orders, const char *trace) {
    const char *file = find_value(orders, "ACTIVITIES_LOG_FILE=");
    const char *start = find_value(orders, "PROFILE_START_TIME=");
    const char *length = find_value(orders, "ACTIVITIES_DURATION_MSECS=");
    if (!file || !start || !length) return;
    sleep_ms(atoll(start) - now_ms());
    note_start();
    sleep_ms(atoll(start) + atoll(length) - now_ms());
    char path[512];
    int size = (int)(strchr(file, '\n') - file) - (int)strlen(".json");
    snprintf(path, sizeof path, "%.*s_%d.json", size, file, (int)getpid());
    if (link(trace, path)) perror("link");
}

/* A socket's address, and its length: an abstract name begins with a zero and, of Kineto, ends with one. */
static socklen_t name_socket(struct sockaddr_un *made, const char *folder, const char *name) {
    made->sun_family = AF_UNIX;
    if (*folder) {
        snprintf(made->sun_path, sizeof made->sun_path, "%s/%s", folder, name);
        return sizeof *made;
    }
    snprintf(made->sun_path + 1, sizeof made->sun_path - 1, "%s", name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name) + 2);
}

int main(int count, char **words) {
    if (count != 3) return 2;
    struct sockaddr_un own = {0}, door = {0};
    char name[64];
    snprintf(name, sizeof name, "dynoconfigclient%d", (int)getpid());
    socklen_t own_size = name_socket(&own, words[1], name);
    socklen_t door_size = name_socket(&door, words[1], "dynolog");
    int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&own, own_size)) return 1;
    const char *quick = getenv("PERIOD_MS"); /* of tests, whose daemons wait for less than Kineto's period */
    int64_t period_ms = quick ? atoll(quick) : PERIOD_MS;
    srand((unsigned)getpid());
    sleep_ms(rand() % period_ms);
    for (;;) {
        char message[4096] = {0};
        uint64_t size = 20;
        int32_t kind = 3, pids = 1, pid = (int32_t)getpid();
        memcpy(message, &size, 8);
        memcpy(message + 8, "req", 3);
        memcpy(message + HEAD, &kind, 4);
        memcpy(message + HEAD + 4, &pids, 4);
        memcpy(message + HEAD + 16, &pid, 4);
        sendto(s, message, HEAD + size, 0, (struct sockaddr *)&door, door_size);
        int64_t next = now_ms() + period_ms;
        struct pollfd waits = {.fd = s, .events = POLLIN};
        while (next > now_ms() && poll(&waits, 1, (int)(next - now_ms())) > 0) {
            ssize_t got = recv(s, message, sizeof message - 1, MSG_DONTWAIT);
            if (got <= HEAD) continue;
            message[got] = 0;
            record(message + HEAD, words[2]);
        }
    }
}

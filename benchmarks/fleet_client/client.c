/* A program that asks a daemon for orders as Kineto does, every five seconds, and writes a trace that
 * was made before: client DOOR TRACE. Its rank, job and the rest are in its environment. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
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

int main(int count, char **words) {
    if (count != 3) return 2;
    struct sockaddr_un own = {.sun_family = AF_UNIX}, door = own;
    snprintf(own.sun_path, sizeof own.sun_path, "%s/dynoconfigclient%d", words[1], (int)getpid());
    snprintf(door.sun_path, sizeof door.sun_path, "%s/dynolog", words[1]);
    int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&own, sizeof own)) return 1;
    srand((unsigned)getpid());
    sleep_ms(rand() % PERIOD_MS);
    for (;;) {
        char message[4096] = {0};
        uint64_t size = 20;
        int32_t kind = 3, pids = 1, pid = (int32_t)getpid();
        memcpy(message, &size, 8);
        memcpy(message + 8, "req", 3);
        memcpy(message + HEAD, &kind, 4);
        memcpy(message + HEAD + 4, &pids, 4);
        memcpy(message + HEAD + 16, &pid, 4);
        sendto(s, message, HEAD + size, 0, (struct sockaddr *)&door, sizeof door);
        int64_t next = now_ms() + PERIOD_MS;
        struct pollfd waits = {.fd = s, .events = POLLIN};
        while (next > now_ms() && poll(&waits, 1, (int)(next - now_ms())) > 0) {
            ssize_t got = recv(s, message, sizeof message - 1, MSG_DONTWAIT);
            if (got <= HEAD) continue;
            message[got] = 0;
            record(message + HEAD, words[2]);
        }
    }
}

// Looks for each key from the beginning of a table that is in order.
#include <stdio.h>
#include <stdlib.h>

enum { KEYS = 30000, QUESTIONS = 100000 };

static int find_key(const int *keys, int wanted) {
    int place = 0;
    while (place < KEYS && keys[place] < wanted) ++place;
    return place;
}

int main(void) {
    int *keys = malloc(sizeof(int) * KEYS);
    for (int place = 0; place < KEYS; ++place) keys[place] = place * 3;
    unsigned seed = 1;
    long total = 0;
    for (int question = 0; question < QUESTIONS; ++question) {
        seed = seed * 1664525u + 1013904223u;
        total += find_key(keys, (int)(seed % (KEYS * 3u)));
    }
    printf("%ld\n", total);
    free(keys);
    return 0;
}

// Asks for a string's length once for each of its letters.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int count_spaces(char *text) {
    int spaces = 0;
    for (size_t place = 0; place < strlen(text); ++place) {
        if (text[place] == ' ') ++spaces;
        text[place] ^= 1;
    }
    return spaces;
}

int main(void) {
    const size_t length = 330000;
    char *text = malloc(length + 1);
    for (size_t place = 0; place < length; ++place) text[place] = place % 6 == 5 ? ' ' : 'n';
    text[length] = 0;
    printf("%d\n", count_spaces(text));
    free(text);
    return 0;
}

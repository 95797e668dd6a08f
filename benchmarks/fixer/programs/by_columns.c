// Adds up a matrix column by column, though it lies in memory row by row.
#include <stdio.h>
#include <stdlib.h>

enum { SIZE = 4096 };

static double add_up(const double *matrix) {
    double total = 0;
    for (int column = 0; column < SIZE; ++column)
        for (int row = 0; row < SIZE; ++row)
            total += matrix[(size_t)row * SIZE + column];
    return total;
}

int main(void) {
    double *matrix = malloc(sizeof(double) * SIZE * SIZE);
    for (size_t place = 0; place < (size_t)SIZE * SIZE; ++place) matrix[place] = (double)(place % 7);
    double total = 0;
    for (int round = 0; round < 6; ++round) total += add_up(matrix);
    printf("%.0f\n", total);
    free(matrix);
    return 0;
}

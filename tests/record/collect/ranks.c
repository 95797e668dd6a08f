// Messages of each kind, as many as SENT says: what tests/record/collect/test_mpi_run.py counts.
#include <mpi.h>
#include <unistd.h>

enum { WORDS = 1000, ROUNDS = 12 };

int main(int count, char **words) {
    double out[4][WORDS] = {{0}}, in[4][WORDS];
    int rank, size;
    MPI_Comm ring, half;
    MPI_Init(&count, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    const int periodic = 1;
    MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &periodic, 0, &ring);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);  // the highest rank is the first of its half
    const int next = (rank + 1) % size, before = (rank + size - 1) % size;
    for (int round = 0; round < ROUNDS; ++round) {
        MPI_Request requests[4];
        MPI_Status statuses[4];
        int done[4], many, at;
        if (rank == 1) {
            usleep(2000);  // late to what the next one waits for
        }
        // The world, completed together; the receive takes what comes.
        MPI_Irecv(in[0], WORDS, MPI_DOUBLE, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(out[0], WORDS, MPI_DOUBLE, next, 1, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        // The ring, both ways in one call.
        MPI_Sendrecv(out[1], 10, MPI_INT, next, 2, in[1], WORDS, MPI_DOUBLE, before, 2, ring,
                     MPI_STATUS_IGNORE);
        // Persistent requests, some of them at a time.
        MPI_Recv_init(in[2], WORDS, MPI_DOUBLE, before, 3, ring, &requests[0]);
        MPI_Send_init(out[2], 100, MPI_DOUBLE, next, 3, ring, &requests[1]);
        MPI_Startall(2, requests);
        for (int left = 2; left > 0; left -= many) {
            MPI_Waitsome(2, requests, &many, done, statuses);
        }
        MPI_Request_free(&requests[0]);
        MPI_Request_free(&requests[1]);
        // One after the other, by rank, in a half of the world.
        int own, members;
        MPI_Comm_rank(half, &own);
        MPI_Comm_size(half, &members);
        if (own > 0) {
            MPI_Recv(in[3], WORDS, MPI_DOUBLE, own - 1, 4, half, MPI_STATUS_IGNORE);
        }
        if (own + 1 < members) {
            MPI_Ssend(out[3], 7, MPI_CHAR, own + 1, 4, half);
        }
        MPI_Irecv(in[3], WORDS, MPI_DOUBLE, before, 5, ring, &requests[0]);
        MPI_Send(out[3], 3, MPI_DOUBLE, next, 5, ring);
        MPI_Waitany(1, requests, &at, statuses);
        MPI_Allreduce(MPI_IN_PLACE, out[0], 5, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        MPI_Bcast(out[1], 6, MPI_DOUBLE, members - 1, half);
    }
    MPI_Comm_free(&ring);
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}

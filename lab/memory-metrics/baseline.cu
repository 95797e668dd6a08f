// Particles that drift along x, kept as an array of structures: 8 of the 32 bytes of each are used.

#include <cuda_profiler_api.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kParticles = 1 << 24;
constexpr int kSteps = 20;

struct Particle {
    float x, y, z, vx, vy, vz, mass, charge;
};

// Stop with a message where a call of CUDA fails.
static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

__global__ void drift(Particle *particles, float dt) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    particles[i].x += particles[i].vx * dt;
}

int main() {
    std::vector<Particle> host(kParticles, Particle{0, 0, 0, 1, 0, 0, 1, 0});
    Particle *particles;
    check(cudaMalloc(&particles, kParticles * sizeof(Particle)));
    check(cudaMemcpy(particles, host.data(), kParticles * sizeof(Particle), cudaMemcpyDefault));
    check(cudaProfilerStart());
    for (int step = 0; step < kSteps; ++step) {
        drift<<<kParticles / 256, 256>>>(particles, 0.5f);
    }
    check(cudaDeviceSynchronize());
    check(cudaProfilerStop());
    check(cudaMemcpy(host.data(), particles, kParticles * sizeof(Particle), cudaMemcpyDefault));
    check(cudaFree(particles));
    return host.back().x == 0.5f * kSteps ? 0 : 1;
}

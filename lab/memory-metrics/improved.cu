// The same as a structure of arrays: neighboring threads access neighboring addresses.

#include <cuda_profiler_api.h>

#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <vector>

constexpr int kParticles = 1 << 24;
constexpr int kSteps = 20;

// Each a pointer to an array with an element for each particle.
struct Particles {
    float *x, *y, *z, *vx, *vy, *vz, *mass, *charge;
};

// Stop with a message where a call of CUDA fails.
static void check(cudaError_t error) {
    if (error != cudaSuccess) {
        std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

__global__ void drift(Particles particles, float dt) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    particles.x[i] += particles.vx[i] * dt;
}

int main() {
    std::vector<float> host(kParticles, 1.0f);
    Particles particles{};
    for (float **part : {&particles.x, &particles.y, &particles.z, &particles.vx, &particles.vy,
                         &particles.vz, &particles.mass, &particles.charge}) {
        check(cudaMalloc(part, kParticles * sizeof(float)));
        check(cudaMemset(*part, 0, kParticles * sizeof(float)));
    }
    check(cudaMemcpy(particles.vx, host.data(), kParticles * sizeof(float), cudaMemcpyDefault));
    check(cudaProfilerStart());
    for (int step = 0; step < kSteps; ++step) {
        drift<<<kParticles / 256, 256>>>(particles, 0.5f);
    }
    check(cudaDeviceSynchronize());
    check(cudaProfilerStop());
    check(cudaMemcpy(host.data(), particles.x, kParticles * sizeof(float), cudaMemcpyDefault));
    return host.back() == 0.5f * kSteps ? 0 : 1;
}

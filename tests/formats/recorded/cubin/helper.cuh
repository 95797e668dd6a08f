// Inlined into its caller: its instructions are those of its own lines.
#pragma once
__device__ __forceinline__ float helper(float a, float x, float y) {
  float t = a * x;
  return sqrtf(t) + y;
}

#include "kineto/categories.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace sightline {

// Category names of Kineto's ActivityType (libkineto/src/ActivityType.cpp) and of the 2021
// releases.
Category category_of(std::string_view name) {
    static const std::unordered_map<std::string_view, Category> known = {
        {"kernel", Category::kernel},
        {"concurrent_kernel", Category::kernel},
        {"mtia_ccp_events", Category::processor},
        {"hpu_op", Category::kernel},
        {"gpu_memcpy", Category::memcpy},
        {"memcpy", Category::memcpy},
        {"gpu_memset", Category::memset},
        {"memset", Category::memset},
        {"cpu_op", Category::op},
        {"operator", Category::op},
        {"collective_comm", Category::op},
        {"user_annotation", Category::annotation},
        {"python_function", Category::python},
        {"cuda_runtime", Category::runtime},
        {"runtime", Category::runtime},
        {"mtia_runtime", Category::runtime},
        {"xpu_runtime", Category::runtime},
        {"glow_runtime", Category::runtime},
        {"privateuse1_runtime", Category::runtime},
        {"cuda_driver", Category::driver},
        {"xpu_driver", Category::driver},
        {"privateuse1_driver", Category::driver},
        {"overhead", Category::overhead},
        {"gpu_user_annotation", Category::mirror},
        {"cuda_sync", Category::sync},
        {"trace", Category::span},
    };
    const auto found = known.find(name);
    return found == known.end() ? Category::unknown : found->second;
}

bool is_known_work(std::string_view name) {
    constexpr std::array<std::string_view, 2> others = {"wait", "merge"};
    const auto same = [](char c, char lower) { return (c | 0x20) == lower; };
    return std::none_of(others.begin(), others.end(), [&](std::string_view word) {
        return std::search(name.begin(), name.end(), word.begin(), word.end(), same) != name.end();
    });
}

Layer layer_of(Category category) {
    switch (category) {
        case Category::op: return op;
        case Category::annotation: return annotation;
        case Category::python: return python;
        case Category::runtime: return runtime;
        case Category::driver: return driver;
        case Category::overhead: return overhead;
        default: return other;
    }
}

}  // namespace sightline

// The floor that the reader is measured against: read the file, walk over it with simdjson's
// on-demand interface, keep eight columns. One thread, the whole file in memory.
#include <simdjson.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace od = simdjson::ondemand;

namespace {

double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

// Numbers for texts; the texts lie in the file's own buffer or the parser's.
class Numbers {
public:
    int operator()(std::string_view text) {
        return known_.emplace(text, static_cast<int>(known_.size())).first->second;
    }

private:
    std::unordered_map<std::string_view, int> known_;
};

}  // namespace

int main(int count, char** arguments) {
    if (count != 2) return 2;
    const double begin = seconds();
    simdjson::padded_string json;
    if (simdjson::padded_string::load(arguments[1]).get(json) != simdjson::SUCCESS) return 2;
    const double loaded = seconds();
    od::parser parser;
    od::document document;
    od::array events;
    if (parser.iterate(json).get(document) != simdjson::SUCCESS ||
        document["traceEvents"].get_array().get(events) != simdjson::SUCCESS) {
        return 2;
    }
    Numbers names, categories, phases;
    std::vector<double> ts, dur;
    std::vector<int> name, category, phase;
    std::vector<int64_t> tid, correlation, external;
    for (auto event : events) {
        od::object fields;
        if (event.get_object().get(fields) != simdjson::SUCCESS) return 2;
        double at = 0, length = 0;
        int its_name = 0, its_category = -1, its_phase = 0;
        int64_t its_tid = 0, its_correlation = -1, its_external = -1;
        std::string_view text;
        for (auto item : fields) {
            od::field field;
            if (std::move(item).get(field) != simdjson::SUCCESS) return 2;
            const std::string_view key = field.unescaped_key().value();
            if (key == "ts") {
                if (field.value().get_double().get(at) != simdjson::SUCCESS) at = 0;
            } else if (key == "dur") {
                if (field.value().get_double().get(length) != simdjson::SUCCESS) length = 0;
            } else if (key == "name") {
                if (field.value().get_string().get(text) == simdjson::SUCCESS) its_name = names(text);
            } else if (key == "cat") {
                if (field.value().get_string().get(text) == simdjson::SUCCESS) {
                    its_category = categories(text);
                }
            } else if (key == "ph") {
                if (field.value().get_string().get(text) == simdjson::SUCCESS) {
                    its_phase = phases(text);
                }
            } else if (key == "tid") {
                if (field.value().get_int64().get(its_tid) != simdjson::SUCCESS) its_tid = 0;
            } else if (key == "args") {
                od::object args;
                if (field.value().get_object().get(args) != simdjson::SUCCESS) continue;
                for (auto arg : args) {
                    od::field one;
                    if (std::move(arg).get(one) != simdjson::SUCCESS) return 2;
                    const std::string_view its_key = one.unescaped_key().value();
                    if (its_key == "correlation") {
                        if (one.value().get_int64().get(its_correlation) != simdjson::SUCCESS) its_correlation = 0;
                    } else if (its_key == "External id") {
                        if (one.value().get_int64().get(its_external) != simdjson::SUCCESS) its_external = 0;
                    }
                }
            }
        }
        ts.push_back(at);
        dur.push_back(length);
        name.push_back(its_name);
        category.push_back(its_category);
        phase.push_back(its_phase);
        tid.push_back(its_tid);
        correlation.push_back(its_correlation);
        external.push_back(its_external);
    }
    const double done = seconds();
    std::printf("{\"read_s\": %.4f, \"parse_s\": %.4f, \"events\": %zu}\n", loaded - begin,
                done - loaded, ts.size());
    return 0;
}

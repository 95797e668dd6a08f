// Binds the compiled readers and passes to Python as sightline._native (types: _native.pyi); what each
// folder gives Python is in bindings/.
#include <system_error>

#include "bindings/bind.h"
#include "kineto/reader.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace nb = nanobind;

NB_MODULE(_native, m) {
    nb::register_exception_translator([](const std::exception_ptr& error, void*) {
        try {
            std::rethrow_exception(error);
        } catch (const std::system_error& failed) {
            errno = failed.code().value();
            PyErr_SetFromErrno(PyExc_OSError);
        }
    });

    m.def("reads_zstd", &sightline::reads_zstd);
    // Tables come from Polars' allocator, which can't use what readers freed in the C library's.
    m.def("give_back_memory", [] {
#if defined(__GLIBC__)
        malloc_trim(0);
#endif
    }, nb::call_guard<nb::gil_scoped_release>());

    sightline::bind_columns(m);
    sightline::bind_ctf(m);
    sightline::bind_kineto(m);
    sightline::bind_nsysrep(m);
    sightline::bind_passes(m);
    sightline::bind_perfetto(m);
    sightline::bind_pickle(m);
    sightline::bind_probe(m);
    sightline::bind_stacks(m);
    sightline::bind_texts(m);
}

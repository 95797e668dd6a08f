// sightline._marks: ranges, marks and steps of a recorded program, written in the usual case without a line
// of Python. It writes what record/inline/annotate.py and record/inline/recorder.py write, into the same slots, and
// hands everything else to them: a first name, a payload, another profiler that listens, a full chunk.
//
// A module of its own, of which the C library is all it needs: it is loaded into other people's programs.
// It is one file, over 600 lines: its types and their functions share a thread's state and the module's, and
// nothing of it is called from elsewhere.
// From Python 3.12 on it keeps to the stable ABI, so one wheel serves all later versions (CMakeLists.txt).
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>

namespace {

// core/model/event_file.py: EVENT, and the kinds that are written here. A test compares them.
struct Event {
    int64_t first, second;
    uint32_t name, thread, extra;
    uint16_t flags;
    uint8_t device, kind;
};
static_assert(sizeof(Event) == 32 && offsetof(Event, kind) == 31, "a slot is laid out as in the file");
constexpr uint8_t OPEN = 1, RANGE = 2, OPEN_STEP = 3, STEP = 4, MARK = 5, NO_DEVICE = 255;

int64_t read_clock() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);  // as time.monotonic_ns on Linux
    return int64_t(now.tv_sec) * 1000000000 + now.tv_nsec;
}

thread_local uint32_t own_thread = 0;

uint32_t find_thread() {
    if (own_thread == 0) own_thread = uint32_t(PyThread_get_thread_native_id());
    return own_thread;
}

// The kind is written last: a program that is killed in between leaves a slot of kind 0, or of an
// open range. The processor keeps the order; the compiler has to be told.
void write_kind(Event* slot, uint8_t kind) {
    std::atomic_signal_fence(std::memory_order_release);
    *const_cast<volatile uint8_t*>(&slot->kind) = kind;
}

void write_event(Event* slot, int64_t first, uint32_t name, uint8_t kind, uint32_t extra = 0) {
    slot->first = first;
    slot->second = 0;
    slot->name = name;
    slot->thread = find_thread();
    slot->extra = extra;
    slot->flags = 0;
    slot->device = NO_DEVICE;
    write_kind(slot, kind);
}

// -- the free slots of a chunk ----------------------------------------------------------------

struct Slots {
    PyObject_HEAD
    vectorcallfunc call;
    Py_buffer chunk;
    Py_ssize_t next;
};

// The offset of the next free slot, once to whoever asks, as an iterator over a range gives it.
PyObject* take_slot(PyObject* object, PyObject* const*, size_t, PyObject*) {
    auto* self = reinterpret_cast<Slots*>(object);
    if (self->next + Py_ssize_t(sizeof(Event)) > self->chunk.len) {
        PyErr_SetNone(PyExc_StopIteration);
        return nullptr;
    }
    PyObject* at = PyLong_FromSsize_t(self->next);
    if (at != nullptr) self->next += sizeof(Event);
    return at;
}

PyObject* make_slots(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject* chunk;
    Py_ssize_t first = 0;
    if (!PyArg_ParseTuple(args, "O|n", &chunk, &first)) return nullptr;
    auto* self = reinterpret_cast<Slots*>(PyType_GenericAlloc(type, 0));
    if (self == nullptr) return nullptr;
    self->call = take_slot;
    self->next = first * Py_ssize_t(sizeof(Event));
    // While it is held, the memory is not unmapped: mmap.close() raises BufferError.
    if (PyObject_GetBuffer(chunk, &self->chunk, PyBUF_WRITABLE) < 0) {
        self->chunk.obj = nullptr;
        Py_DECREF(self);
        return nullptr;
    }
    return reinterpret_cast<PyObject*>(self);
}

// The memory of an object, and its own reference to its type: both types are made when the module is.
void free_object(PyObject* object) {
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
    auto release = reinterpret_cast<freefunc>(PyType_GetSlot(Py_TYPE(object), Py_tp_free));
    release(object);
    Py_DECREF(type);
}

void free_slots(PyObject* object) {
    auto* self = reinterpret_cast<Slots*>(object);
    if (self->chunk.obj != nullptr) PyBuffer_Release(&self->chunk);
    free_object(object);
}

PyTypeObject* slots_type = nullptr;

Event* take_event(Slots* slots) {
    if (slots->next + Py_ssize_t(sizeof(Event)) > slots->chunk.len) return nullptr;
    auto* found = reinterpret_cast<Event*>(static_cast<char*>(slots->chunk.buf) + slots->next);
    slots->next += sizeof(Event);
    return found;
}

// -- what Python knows of the run ---------------------------------------------------------------

// Attributes of classes in Python that have __slots__, and where they lie: of inline.session.State,
// inline.recorder.Recorder, inline.step.Steps and inline.usage.Usage.
PyObject* state = nullptr;
Py_ssize_t at_on, at_nvtx, at_recorder, at_listens, at_step, at_at_step;
Py_ssize_t at_free, at_numbers, at_next_clock;
Py_ssize_t at_count, at_explicit, at_chunk, at_at, at_file, at_usage, at_next;
PyTypeObject *recorder_type = nullptr, *steps_type = nullptr, *usage_type = nullptr;
PyObject *plain_enter = nullptr, *plain_exit = nullptr, *plain_mark = nullptr, *plain_step = nullptr;
PyObject *name_torch, *name_jax, *name_clock, *name_open, *name_read, *modules;
PyObject* step_prefix = nullptr;

PyObject* look(PyObject* object, Py_ssize_t offset) {
    return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset);
}

void replace(PyObject*& place, PyObject* value) {  // takes over the reference
    PyObject* before = place;
    place = value;
    Py_XDECREF(before);
}

void put(PyObject* object, Py_ssize_t offset, PyObject* value) {  // takes over the reference
    replace(*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + offset), value);
}

// Where objects of a class keep one of its slots. The stable ABI does not tell, so a value is put into the
// slot of a new object, and looked for in the memory behind its head.
bool find_offset(PyObject* type, const char* name, Py_ssize_t* offset) {
    PyObject* found = PyObject_GetAttrString(type, name);
    if (found == nullptr) return false;
    const bool is_slot = Py_IS_TYPE(found, &PyMemberDescr_Type);
    Py_DECREF(found);
    PyObject* basic_size = is_slot ? PyObject_GetAttrString(type, "__basicsize__") : nullptr;
    const Py_ssize_t size = basic_size != nullptr ? PyLong_AsSsize_t(basic_size) : 0;
    Py_XDECREF(basic_size);
    auto* made = reinterpret_cast<PyTypeObject*>(type);
    PyObject* object = is_slot ? PyType_GenericAlloc(made, 0) : nullptr;
    PyObject* value = object != nullptr ? PyLong_FromLongLong(int64_t(1) << 40) : nullptr;
    bool is_found = false;
    if (value != nullptr && PyObject_SetAttrString(object, name, value) == 0) {
        for (Py_ssize_t at = sizeof(PyObject); at + Py_ssize_t(sizeof(PyObject*)) <= size && !is_found;
             at += sizeof(PyObject*)) {
            is_found = look(object, at) == value;
            *offset = at;
        }
    }
    Py_XDECREF(value);
    Py_XDECREF(object);
    if (!is_found && !PyErr_Occurred()) PyErr_Format(PyExc_ImportError, "%s is no slot", name);
    return is_found;
}

// Whether another profiler may want the range as well: 1 yes, 0 no, -1 with an error set.
int has_listener() {
    if (look(state, at_nvtx) != Py_False) return 1;
    int found = PyDict_Contains(modules, name_jax);
    if (found != 0) return found;
    found = PyDict_Contains(modules, name_torch);
    if (found <= 0) return found;
    PyObject* ask = look(state, at_listens);
    if (ask == nullptr) return 1;
    Py_INCREF(ask);
    PyObject* answer = PyObject_CallNoArgs(ask);
    Py_DECREF(ask);
    if (answer == nullptr) return -1;
    found = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return found;
}

// A slot of the open event file for an event of that name; null where Python is to be asked.
struct Place {
    PyObject* recorder;
    Slots* slots;
    Event* event;
    uint32_t name;
};

bool find_place(PyObject* name, Place* place) {
    PyObject* recorder = look(state, at_recorder);
    if (recorder == nullptr || !Py_IS_TYPE(recorder, recorder_type)) return false;
    PyObject* numbers = look(recorder, at_numbers);
    PyObject* free = look(recorder, at_free);
    if (numbers == nullptr || free == nullptr || !PyDict_CheckExact(numbers)) return false;
    PyObject* number = PyDict_GetItemWithError(numbers, name);  // borrowed
    if (number == nullptr) {
        PyErr_Clear();
        return false;
    }
    if (!PyTuple_CheckExact(free) || PyTuple_Size(free) != 2) return false;
    PyObject* slots = PyTuple_GetItem(free, 1);
    if (!Py_IS_TYPE(slots, slots_type)) return false;
    place->name = uint32_t(PyLong_AsUnsignedLongMask(number));
    place->recorder = recorder;
    place->slots = reinterpret_cast<Slots*>(slots);
    place->event = take_event(place->slots);
    return place->event != nullptr;
}

// Pairs of clocks are written once a second, by Python.
bool follow_clock(PyObject* recorder, int64_t at_ns) {
    PyObject* due = look(recorder, at_next_clock);
    if (due == nullptr || at_ns <= PyLong_AsLongLong(due)) return !PyErr_Occurred();
    PyObject* done = PyObject_CallMethodObjArgs(recorder, name_clock, nullptr);
    Py_XDECREF(done);
    return done != nullptr;
}

// -- ranges -------------------------------------------------------------------------------------

// The attributes of the class in Python, which works on these objects too, and what is open here.
struct Range {
    PyObject_HEAD
    PyObject *name, *payload, *chunk, *at, *file, *leave;
    PyObject* labels;    // (color, domain, category); null where none is given
    PyObject* recorder;  // null where the range is not open, or Python has opened it
    PyObject* slots;
    Event* event;
};

int init_range(PyObject* object, PyObject* args, PyObject* named) {
    auto* self = reinterpret_cast<Range*>(object);
    PyObject *name = nullptr, *payload = Py_None, *color = Py_None, *domain = Py_None, *category = Py_None;
    if (named == nullptr && PyTuple_Size(args) == 1) {
        name = PyTuple_GetItem(args, 0);
    } else {
        static const char* keywords[] = {"name", "payload", "color", "domain", "category", nullptr};
        if (!PyArg_ParseTupleAndKeywords(args, named, "O|O$OOO", const_cast<char**>(keywords), &name, &payload,
                                         &color, &domain, &category))
            return -1;
    }
    PyObject* labels = nullptr;
    if (color != Py_None || domain != Py_None || category != Py_None) {
        labels = PyTuple_Pack(3, color, domain, category);
        if (labels == nullptr) return -1;
    }
    replace(self->labels, labels);
    // Anything may be a name, recorded or not: recording must not change what a program does.
    PyObject* text = PyUnicode_CheckExact(name) ? Py_NewRef(name) : PyObject_Str(name);
    if (text == nullptr) return -1;
    replace(self->name, text);
    replace(self->payload, Py_NewRef(payload));
    replace(self->chunk, Py_NewRef(Py_None));
    return 0;
}

PyObject* enter_range(PyObject* object, PyObject*) {
    auto* self = reinterpret_cast<Range*>(object);
    if (look(state, at_on) != Py_True) return Py_NewRef(object);
    if (self->payload == Py_None && self->labels == nullptr && self->name != nullptr) {
        const int listener = has_listener();
        if (listener < 0) return nullptr;
        Place place;
        if (listener == 0 && find_place(self->name, &place)) {
            write_event(place.event, read_clock(), place.name, OPEN);
            self->event = place.event;
            replace(self->recorder, Py_NewRef(place.recorder));
            replace(self->slots, Py_NewRef(reinterpret_cast<PyObject*>(place.slots)));
            return Py_NewRef(object);
        }
    }
    return PyObject_CallFunctionObjArgs(plain_enter, object, nullptr);
}

PyObject* exit_range(PyObject* object, PyObject* const* args, Py_ssize_t count) {
    auto* self = reinterpret_cast<Range*>(object);
    if (self->recorder == nullptr) {
        if (self->chunk == Py_None) Py_RETURN_NONE;
        PyObject* words[4] = {object};
        if (count > 3) count = 3;
        for (Py_ssize_t i = 0; i < count; ++i) words[i + 1] = args[i];
        return PyObject_Vectorcall(plain_exit, words, size_t(count) + 1, nullptr);
    }
    const int64_t ended = read_clock();
    self->event->second = ended;
    write_kind(self->event, RANGE);
    PyObject* recorder = self->recorder;
    self->recorder = nullptr;
    Py_CLEAR(self->slots);
    const bool fine = follow_clock(recorder, ended);
    Py_DECREF(recorder);
    if (!fine) return nullptr;
    Py_RETURN_NONE;
}

int visit_range(PyObject* object, visitproc visit, void* arg) {
    auto* self = reinterpret_cast<Range*>(object);
    Py_VISIT(reinterpret_cast<PyObject*>(Py_TYPE(object)));
    for (PyObject* held : {self->name, self->payload, self->chunk, self->at, self->file, self->leave,
                           self->labels, self->recorder, self->slots})
        Py_VISIT(held);
    return 0;
}

int clear_range(PyObject* object) {
    auto* self = reinterpret_cast<Range*>(object);
    Py_CLEAR(self->name);
    Py_CLEAR(self->payload);
    Py_CLEAR(self->chunk);
    Py_CLEAR(self->at);
    Py_CLEAR(self->file);
    Py_CLEAR(self->leave);
    Py_CLEAR(self->labels);
    Py_CLEAR(self->recorder);
    Py_CLEAR(self->slots);
    return 0;
}

void free_range(PyObject* object) {
    PyObject_GC_UnTrack(object);
    clear_range(object);
    free_object(object);
}

PyMemberDef range_members[] = {
    {"name", T_OBJECT_EX, offsetof(Range, name), 0, "The range's name."},
    {"_payload", T_OBJECT_EX, offsetof(Range, payload), 0, nullptr},
    {"_chunk", T_OBJECT_EX, offsetof(Range, chunk), 0, nullptr},
    {"_at", T_OBJECT_EX, offsetof(Range, at), 0, nullptr},
    {"_file", T_OBJECT_EX, offsetof(Range, file), 0, nullptr},
    {"_leave", T_OBJECT_EX, offsetof(Range, leave), 0, nullptr},
    {"_labels", T_OBJECT, offsetof(Range, labels), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyMethodDef range_methods[] = {
    {"__enter__", enter_range, METH_NOARGS, nullptr},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(exit_range)), METH_FASTCALL,
     nullptr},
    {nullptr, nullptr, 0, nullptr},
};

// -- marks --------------------------------------------------------------------------------------

PyObject* mark(PyObject*, PyObject* const* args, Py_ssize_t count, PyObject* names) {
    if (look(state, at_on) != Py_True && names == nullptr && (count == 1 || count == 2)) Py_RETURN_NONE;
    Place place;
    if (count == 1 && names == nullptr && PyUnicode_CheckExact(args[0]) && find_place(args[0], &place)) {
        const int64_t now = read_clock();
        write_event(place.event, now, place.name, MARK);
        PyObject* recorder = Py_NewRef(place.recorder);
        const bool fine = follow_clock(recorder, now);
        Py_DECREF(recorder);
        if (!fine) return nullptr;
        Py_RETURN_NONE;
    }
    return PyObject_Vectorcall(plain_mark, args, size_t(count), names);
}

// -- steps --------------------------------------------------------------------------------------

// The slot of the step that is open; null where there is none.
Event* find_open_step(PyObject* steps) {
    PyObject* chunk = look(steps, at_chunk);
    if (chunk == nullptr || chunk == Py_None) return nullptr;
    const Py_ssize_t at = PyLong_AsSsize_t(look(steps, at_at));
    Py_buffer memory;
    if (PyObject_GetBuffer(chunk, &memory, PyBUF_WRITABLE) < 0) {
        PyErr_Clear();
        return nullptr;
    }
    const bool inside = at >= 0 && at + Py_ssize_t(sizeof(Event)) <= memory.len;
    auto* found = reinterpret_cast<Event*>(static_cast<char*>(memory.buf) + at);
    PyBuffer_Release(&memory);  // `steps` holds the chunk
    return inside ? found : nullptr;
}

// The counters of the operating system, which are read every few ms, by Python.
bool follow_usage(PyObject* usage, PyObject* file, int64_t ended) {
    PyObject* due = look(usage, at_next);
    if (due != nullptr && ended < PyLong_AsLongLong(due)) return !PyErr_Occurred();
    PyObject* moment = PyLong_FromLongLong(ended);
    if (moment == nullptr) return false;
    PyObject* done = PyObject_CallMethodObjArgs(usage, name_read, file, moment, nullptr);
    Py_DECREF(moment);
    Py_XDECREF(done);
    return done != nullptr;
}

// Begin the next step, as Steps.open.
bool open_step(PyObject* steps, PyObject* file, long long count) {
    const int64_t began = read_clock();
    Place place;
    if (look(state, at_recorder) == file && find_place(step_prefix, &place)) {
        PyObject* free = look(file, at_free);
        const auto* start = static_cast<char*>(place.slots->chunk.buf);
        PyObject* at = PyLong_FromSsize_t(reinterpret_cast<char*>(place.event) - start);
        if (at == nullptr) return false;
        write_event(place.event, began, place.name, OPEN_STEP, uint32_t(count));
        put(steps, at_at, at);
        put(steps, at_chunk, Py_NewRef(PyTuple_GetItem(free, 0)));
        return true;
    }
    PyObject* moment = PyLong_FromLongLong(began);
    if (moment == nullptr) return false;
    PyObject* done = PyObject_CallMethodObjArgs(steps, name_open, moment, nullptr);
    Py_DECREF(moment);
    Py_XDECREF(done);
    return done != nullptr;
}

// Steps.boundary where the program says where its steps end, one is open, and no schedule waits.
PyObject* step(PyObject*, PyObject*) {
    if (look(state, at_on) != Py_True) Py_RETURN_NONE;
    PyObject* steps = look(state, at_step);
    if (steps == nullptr || !Py_IS_TYPE(steps, steps_type) || look(steps, at_explicit) != Py_True ||
        look(state, at_at_step) != Py_None)
        return PyObject_CallNoArgs(plain_step);
    PyObject *file = look(steps, at_file), *usage = look(steps, at_usage);
    if (file == nullptr || !Py_IS_TYPE(file, recorder_type) || usage == nullptr || !Py_IS_TYPE(usage, usage_type))
        return PyObject_CallNoArgs(plain_step);
    Event* open = find_open_step(steps);
    if (open == nullptr) return PyObject_CallNoArgs(plain_step);
    const int64_t ended = read_clock();
    open->second = ended;
    write_kind(open, STEP);
    Py_INCREF(steps);
    Py_INCREF(file);
    Py_INCREF(usage);
    put(steps, at_chunk, Py_NewRef(Py_None));
    bool fine = follow_clock(file, ended) && follow_usage(usage, file, ended);
    const long long count = PyLong_AsLongLong(look(steps, at_count)) + 1;
    PyObject* counted = PyLong_FromLongLong(count);
    if (counted != nullptr) put(steps, at_count, counted);
    fine = fine && counted != nullptr && open_step(steps, file, count);
    Py_DECREF(usage);
    Py_DECREF(file);
    Py_DECREF(steps);
    if (!fine) return nullptr;
    Py_RETURN_NONE;
}

// -- the module ---------------------------------------------------------------------------------

PyObject* attach(PyObject*, PyObject* args) {
    PyObject *own_state, *type;
    if (!PyArg_ParseTuple(args, "OO!", &own_state, &PyType_Type, &type)) return nullptr;
    if (state != nullptr && state != own_state) {  // of another interpreter in this process
        PyErr_SetString(PyExc_ImportError, "another interpreter records this process");
        return nullptr;
    }
    auto* of_state = reinterpret_cast<PyObject*>(Py_TYPE(own_state));
    if (!find_offset(of_state, "on", &at_on) || !find_offset(of_state, "nvtx", &at_nvtx) ||
        !find_offset(of_state, "recorder", &at_recorder) || !find_offset(of_state, "step", &at_step) ||
        !find_offset(of_state, "listens", &at_listens) || !find_offset(of_state, "at_step", &at_at_step) ||
        !find_offset(type, "_free", &at_free) || !find_offset(type, "numbers", &at_numbers) ||
        !find_offset(type, "next_clock", &at_next_clock))
        return nullptr;
    recorder_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(type));
    state = Py_NewRef(own_state);
    Py_RETURN_NONE;
}

PyObject* attach_ranges(PyObject*, PyObject* args) {
    PyObject *enter, *exit, *plain;
    if (!PyArg_ParseTuple(args, "OOO", &enter, &exit, &plain)) return nullptr;
    replace(plain_enter, Py_NewRef(enter));
    replace(plain_exit, Py_NewRef(exit));
    replace(plain_mark, Py_NewRef(plain));
    Py_RETURN_NONE;
}

PyObject* attach_steps(PyObject*, PyObject* args) {
    PyObject *steps, *usage, *plain, *prefix;
    if (!PyArg_ParseTuple(args, "O!O!OU", &PyType_Type, &steps, &PyType_Type, &usage, &plain, &prefix))
        return nullptr;
    if (!find_offset(steps, "count", &at_count) || !find_offset(steps, "explicit", &at_explicit) ||
        !find_offset(steps, "_chunk", &at_chunk) || !find_offset(steps, "_at", &at_at) ||
        !find_offset(steps, "_file", &at_file) || !find_offset(steps, "_usage", &at_usage) ||
        !find_offset(usage, "_next", &at_next))
        return nullptr;
    steps_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(steps));
    usage_type = reinterpret_cast<PyTypeObject*>(Py_NewRef(usage));
    replace(plain_step, Py_NewRef(plain));
    replace(step_prefix, Py_NewRef(prefix));
    Py_RETURN_NONE;
}

// What a range costs at least, without the calls from Python around it: so many of them, one by one.
PyObject* write_ranges(PyObject*, PyObject* args) {
    PyObject* object;
    unsigned name;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "O!In", slots_type, &object, &name, &count)) return nullptr;
    for (; count > 0; --count) {
        Event* event = take_event(reinterpret_cast<Slots*>(object));
        if (event == nullptr) break;
        write_event(event, read_clock(), name, OPEN);
        event->second = read_clock();
        write_kind(event, RANGE);
    }
    Py_RETURN_NONE;
}

PyObject* read_nothing(PyObject*, PyObject*) { Py_RETURN_NONE; }

PyMethodDef functions[] = {
    {"attach", attach, METH_VARARGS, "Write where the state says. Raises ImportError where that cannot be."},
    {"attach_ranges", attach_ranges, METH_VARARGS, "What is asked where a range or a mark is not the usual one."},
    {"attach_steps", attach_steps, METH_VARARGS, "The classes of steps and usage, and what is asked else."},
    {"step", step, METH_NOARGS, "step($module, /)\n--\n\nEnd a step of the program's loop; the next one begins."},
    {"mark", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(mark)), METH_FASTCALL | METH_KEYWORDS,
     "mark($module, name, payload=None, /)\n--\n\nA named moment."},
    {"write_ranges", write_ranges, METH_VARARGS, "Write so many ranges of a name's number, as long as there is room."},
    {"read_nothing", read_nothing, METH_NOARGS, "What a call costs that does nothing: for benchmarks."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "sightline._marks", nullptr, -1, functions,
                          nullptr,              nullptr,            nullptr, nullptr};

// A table of slots holds functions as void*, which C++ converts only through a pointer to a function.
template <typename Function>
void* as_slot(Function* function) {
    return reinterpret_cast<void*>(function);
}

PyTypeObject* make_type(const char* name, size_t size, unsigned flags, PyType_Slot* slots) {
    PyType_Spec spec = {name, int(size), 0, flags, slots};
    return reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
}

PyMemberDef slots_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Slots, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

PyTypeObject* make_slots_type() {
    static char doc[] = "Gives the offsets of a chunk's free slots, from the given one on.";
    PyType_Slot slots[] = {
        {Py_tp_new, as_slot(make_slots)},
        {Py_tp_dealloc, as_slot(free_slots)},
        {Py_tp_call, as_slot(PyVectorcall_Call)},
        {Py_tp_members, slots_members},
        {Py_tp_doc, doc},
        {0, nullptr},
    };
    const unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL;
    return make_type("sightline._marks.Slots", sizeof(Slots), flags, slots);
}

PyTypeObject* make_range_type() {
    PyType_Slot slots[] = {
        {Py_tp_new, as_slot(PyType_GenericNew)},
        {Py_tp_init, as_slot(init_range)},
        {Py_tp_dealloc, as_slot(free_range)},
        {Py_tp_traverse, as_slot(visit_range)},
        {Py_tp_clear, as_slot(clear_range)},
        {Py_tp_members, range_members},
        {Py_tp_methods, range_methods},
        {0, nullptr},
    };
    const unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
    return make_type("sightline._marks.Range", sizeof(Range), flags, slots);
}

}  // namespace

PyMODINIT_FUNC PyInit__marks() {
#if defined(Py_GIL_DISABLED) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
    PyErr_SetString(PyExc_ImportError, "written for one thread at a time, and the file's byte order");
    return nullptr;
#else
    name_torch = PyUnicode_InternFromString("torch");
    name_jax = PyUnicode_InternFromString("jax");
    name_clock = PyUnicode_InternFromString("clock");
    name_open = PyUnicode_InternFromString("open");
    name_read = PyUnicode_InternFromString("read_if_due");
    modules = Py_XNewRef(PyImport_GetModuleDict());
    if (name_torch == nullptr || name_jax == nullptr || name_clock == nullptr || name_open == nullptr ||
        name_read == nullptr || modules == nullptr)
        return nullptr;
    slots_type = make_slots_type();
    PyTypeObject* range_type = slots_type != nullptr ? make_range_type() : nullptr;
    if (range_type == nullptr) return nullptr;
    pthread_atfork(nullptr, nullptr, [] { own_thread = 0; });
    PyObject* module = PyModule_Create(&definition);
    if (module == nullptr) return nullptr;
    if (PyModule_AddObjectRef(module, "Slots", reinterpret_cast<PyObject*>(slots_type)) < 0 ||
        PyModule_AddObjectRef(module, "Range", reinterpret_cast<PyObject*>(range_type)) < 0) {
        Py_DECREF(module);
        return nullptr;
    }
    return module;
#endif
}

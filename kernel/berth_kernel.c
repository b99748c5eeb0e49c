/* The scores of one request profile, updated as few hosts change.

   The module is optional. Every step of a Board exists in NumPy as well, in the modules
   request_profile, stages, scoring and blocks of berth.scheduling.engine, and the same tests run
   with both (tests/property/test_engine_law.py, test_kernel.py). Change both together. The kernel
   exists because a warm decision updates a few dozen hosts, and about thirty NumPy calls of a
   microsecond each cost more than the arithmetic (ADR 13).

   Plans must not depend on whether a scheduler has the kernel, so scores are equal to the last bit:
   the operations are those of NumPy, in the same order, each rounded on its own. Build without
   -ffast-math, which reorders sums, and with -ffp-contract=off, because a fused multiply-add rounds
   once where NumPy rounds twice.

   The caller owns every array. A Board holds buffers of the five arrays of its profile, which the
   profile never replaces. Arrays that the tables may replace when they grow (ranks, readings, room)
   are passed with each call and released before it returns. All are C-contiguous; type and size are
   checked when they are passed, and row numbers are checked for range. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Increment when the meaning of a call changes: Berth ignores a kernel with another number. */
#define BERTH_KERNEL_API 2

/* Up to this many best scores are found by insertion, which is quadratic; beyond, the caller
   sorts. */
#define BEST_MAX 64

enum { STAGES_MOVED = 1, EXTREMES_MOVED = 2, SCORES_UNFIT = 4, VALUES_UNFIT = 8 };

typedef struct {
    double floor, ceiling, low, span, factor;
} Ends;

/* The greatest of a value, or of its negative, over the rows that pass. `bounds` has an upper bound
   for each block: a row whose value falls leaves it too high, and `search_anew` corrects it. Only
   when the value of `holder` falls can the extreme have changed; it is stale then. */
typedef struct {
    double *bounds;
    double value;
    Py_ssize_t holder;
    int is_stale;
} Extreme;

/* One term of a host's score as `tell` returns it. Idle weighers have the same value for every
   host. */
typedef struct {
    Py_ssize_t index; /* -1: idle */
    double value, factor;
    Py_ssize_t own; /* index among the weighers without a line; -1: it has one */
} Told;

typedef struct {
    PyObject_HEAD
    Py_buffer stage, settled, counts, scores, greatest;
    Py_ssize_t rows, blocks;
    Py_ssize_t weighers, owns; /* owns: number of weighers without a line */
    long *lines;
    Ends *ends;
    Extreme *extremes; /* two per weigher: of the greatest value, of the least */
    Py_ssize_t told;
    Told *tells;
    int passed, shift, by_share;
} Board;

/* ---- buffers ----------------------------------------------------------------------------- */

static int
take(PyObject *from, Py_buffer *into, int flags, Py_ssize_t itemsize, Py_ssize_t at_least,
     const char *name)
{
    if (PyObject_GetBuffer(from, into, flags) < 0) {
        into->obj = NULL;
        return -1;
    }
    if (into->itemsize != itemsize || into->len < at_least * itemsize) {
        PyErr_Format(PyExc_ValueError,
                     "%s: has %zd items of %zd bytes, expected at least %zd items of %zd bytes",
                     name, into->len / (into->itemsize ? into->itemsize : 1), into->itemsize,
                     at_least, itemsize);
        PyBuffer_Release(into);
        into->obj = NULL;
        return -1;
    }
    return 0;
}

static int
take_or_none(PyObject *from, Py_buffer *into, Py_ssize_t itemsize, Py_ssize_t at_least,
             const char *name)
{
    into->obj = NULL;
    into->buf = NULL;
    if (from == Py_None) {
        return 0;
    }
    return take(from, into, PyBUF_C_CONTIGUOUS, itemsize, at_least, name);
}

static void
give_back(Py_buffer *buffer)
{
    if (buffer->obj != NULL) {
        PyBuffer_Release(buffer);
        buffer->obj = NULL;
    }
}

/* ---- construction ------------------------------------------------------------------------ */

static void
board_dealloc(PyObject *object)
{
    Board *self = (Board *)object;
    give_back(&self->stage);
    give_back(&self->settled);
    give_back(&self->counts);
    give_back(&self->scores);
    give_back(&self->greatest);
    if (self->extremes != NULL) {
        for (Py_ssize_t i = 0; i < 2 * self->weighers; i++) {
            PyMem_Free(self->extremes[i].bounds);
        }
    }
    PyMem_Free(self->extremes);
    PyMem_Free(self->lines);
    PyMem_Free(self->ends);
    PyMem_Free(self->tells);
    PyTypeObject *type = Py_TYPE(object);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static int
board_init(PyObject *object, PyObject *args, PyObject *names)
{
    static char *keywords[] = {"stage",  "settled", "counts", "passed",   "scores",
                               "greatest", "shift", "lines",  "by_share", NULL};
    Board *self = (Board *)object;
    PyObject *stage, *settled, *counts, *scores, *greatest, *lines;
    if (self->stage.obj != NULL) {
        PyErr_SetString(PyExc_TypeError, "a Board is initialised once");
        return -1;
    }
    if (!PyArg_ParseTupleAndKeywords(args, names, "OOOiOOiO!p", keywords, &stage, &settled,
                                     &counts, &self->passed, &scores, &greatest, &self->shift,
                                     &PyTuple_Type, &lines, &self->by_share)) {
        return -1;
    }
    if (self->passed < 0 || self->passed > 253 || self->shift < 0 || self->shift > 20) {
        PyErr_SetString(PyExc_ValueError,
                        "passed must be between 0 and 253, and shift between 0 and 20");
        return -1;
    }
    const int writable = PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE;
    if (take(stage, &self->stage, writable, 1, 0, "stage") < 0) {
        return -1;
    }
    self->rows = self->stage.len;
    if (take(settled, &self->settled, PyBUF_C_CONTIGUOUS, 1, self->rows, "settled") < 0 ||
        take(counts, &self->counts, writable, 8, self->passed + 2, "counts") < 0 ||
        take(greatest, &self->greatest, writable, 8, 1, "greatest") < 0) {
        return -1;
    }
    self->blocks = self->greatest.len / 8;
    if (take(scores, &self->scores, writable, 8, self->blocks << self->shift, "scores") < 0) {
        return -1;
    }
    if (self->scores.len / 8 < self->rows || self->blocks << self->shift < self->rows) {
        PyErr_SetString(PyExc_ValueError, "scores: must have at least one place per row");
        return -1;
    }
    Py_ssize_t count = PyTuple_Size(lines);
    self->lines = PyMem_Calloc((size_t)count + 1, sizeof(long));
    self->ends = PyMem_Calloc((size_t)count + 1, sizeof(Ends));
    self->extremes = PyMem_Calloc(2 * (size_t)count + 1, sizeof(Extreme));
    if (self->lines == NULL || self->ends == NULL || self->extremes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->weighers = count;
    for (Py_ssize_t i = 0; i < count; i++) {
        self->lines[i] = PyLong_AsLong(PyTuple_GetItem(lines, i));
        if (self->lines[i] == -1 && PyErr_Occurred()) {
            return -1;
        }
        self->ends[i].span = 1.0;
        self->owns += self->lines[i] < 0;
    }
    return 0;
}

static PyObject *
board_set_ends(PyObject *object, PyObject *each)
{
    Board *self = (Board *)object;
    if (!PyTuple_Check(each) || PyTuple_Size(each) != self->weighers) {
        PyErr_SetString(PyExc_ValueError, "ends: expected one tuple of five numbers per weigher");
        return NULL;
    }
    for (Py_ssize_t i = 0; i < self->weighers; i++) {
        Ends *ends = &self->ends[i];
        if (!PyArg_ParseTuple(PyTuple_GetItem(each, i), "ddddd", &ends->floor, &ends->ceiling,
                              &ends->low, &ends->span, &ends->factor)) {
            return NULL;
        }
    }
    Py_RETURN_NONE;
}

/* ---- extremes ---------------------------------------------------------------------------- */

/* Return the greatest value of the rows in a range that pass; `line` has the values of all rows. */
static double
greatest_of(const Board *self, const double *line, int sign, Py_ssize_t start, Py_ssize_t stop)
{
    const uint8_t *stage = self->stage.buf;
    const uint8_t passed = (uint8_t)self->passed;
    double most = -INFINITY;
    for (Py_ssize_t row = start; row < stop; row++) {
        double value = sign > 0 ? line[row] : -line[row];
        value = stage[row] == passed ? value : -INFINITY;
        most = value > most ? value : most;
    }
    return most;
}

static PyObject *
board_begin(PyObject *object, PyObject *args)
{
    Board *self = (Board *)object;
    Py_ssize_t index;
    int sign;
    PyObject *from;
    Py_buffer values;
    if (!PyArg_ParseTuple(args, "niO", &index, &sign, &from)) {
        return NULL;
    }
    if (index < 0 || index >= self->weighers) {
        PyErr_SetString(PyExc_IndexError, "weigher out of range");
        return NULL;
    }
    if (take(from, &values, PyBUF_C_CONTIGUOUS, 8, self->rows, "values") < 0) {
        return NULL;
    }
    Extreme *extreme = &self->extremes[2 * index + (sign < 0)];
    if (extreme->bounds == NULL) {
        extreme->bounds = PyMem_Calloc((size_t)self->blocks, sizeof(double));
        if (extreme->bounds == NULL) {
            PyBuffer_Release(&values);
            return PyErr_NoMemory();
        }
    }
    const double *line = values.buf;
    Py_ssize_t best = 0;
    for (Py_ssize_t b = 0; b < self->blocks; b++) {
        Py_ssize_t start = b << self->shift, stop = (b + 1) << self->shift;
        stop = stop < self->rows ? stop : self->rows;
        extreme->bounds[b] = greatest_of(self, line, sign, start, stop);
        if (extreme->bounds[b] > extreme->bounds[best]) {
            best = b;
        }
    }
    extreme->value = extreme->bounds[best];
    extreme->is_stale = 0;
    extreme->holder = best << self->shift;
    for (Py_ssize_t row = extreme->holder; row < self->rows; row++) {
        if (greatest_of(self, line, sign, row, row + 1) == extreme->value) {
            extreme->holder = row;
            break;
        }
    }
    PyBuffer_Release(&values);
    Py_RETURN_NONE;
}

/* Update an extreme for the current value of one row. */
static void
note(Board *self, Extreme *extreme, Py_ssize_t row, double value)
{
    double *bound = &extreme->bounds[row >> self->shift];
    if (value > *bound) {
        *bound = value;
    }
    if (value >= extreme->value) {
        extreme->value = value;
        extreme->holder = row;
        extreme->is_stale = 0;
    }
    else if (row == extreme->holder) {
        extreme->is_stale = 1;
    }
}

/* Find the greatest value of one block; `search` computes the values of weighers without a line. */
static int
look_at(Board *self, Py_ssize_t index, int sign, Py_ssize_t block, const double *line,
        PyObject *search, Extreme *extreme, double *found)
{
    Py_ssize_t start = block << self->shift;
    Py_ssize_t stop = start + ((Py_ssize_t)1 << self->shift);
    if (stop > self->rows) {
        stop = self->rows;
    }
    *found = -INFINITY;
    if (line != NULL) {
        const uint8_t *stage = self->stage.buf;
        for (Py_ssize_t row = start; row < stop; row++) {
            double value = sign > 0 ? line[row] : -line[row];
            if (stage[row] == self->passed && value > *found) {
                *found = value;
                extreme->holder = row;
            }
        }
        return 0;
    }
    PyObject *values = PyObject_CallFunction(search, "ninn", index, sign, start, stop);
    if (values == NULL) {
        return -1;
    }
    Py_buffer buffer;
    int status = take(values, &buffer, PyBUF_C_CONTIGUOUS, 8, stop - start, "found");
    Py_DECREF(values);
    if (status < 0) {
        return -1;
    }
    const double *value = buffer.buf;
    for (Py_ssize_t i = 0; i < stop - start; i++) {
        if (value[i] > *found) {
            *found = value[i];
            extreme->holder = start + i;
        }
    }
    PyBuffer_Release(&buffer);
    return 0;
}

/* Find the greatest value. The block with the greatest bound is evaluated; if its bound was too
   high, it is corrected, and the search goes on with the next greatest. Once a bound is exact, no
   other block can hold a greater value. */
static int
search_anew(Board *self, Py_ssize_t index, int sign, const double *line, PyObject *search,
            Extreme *extreme)
{
    for (;;) {
        Py_ssize_t best = 0;
        for (Py_ssize_t b = 1; b < self->blocks; b++) {
            if (extreme->bounds[b] > extreme->bounds[best]) {
                best = b;
            }
        }
        double found;
        if (look_at(self, index, sign, best, line, search, extreme, &found) < 0) {
            return -1;
        }
        if (found >= extreme->bounds[best]) {
            extreme->value = found;
            extreme->is_stale = 0;
            return 0;
        }
        extreme->bounds[best] = found;
    }
}

static PyObject *
board_extremes(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    Board *self = (Board *)object;
    PyObject *found = PyList_New(self->weighers);
    if (found == NULL) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < self->weighers; i++) {
        Extreme *most = &self->extremes[2 * i], *least = most + 1;
        PyObject *pair = Py_BuildValue("(dd)", least->bounds == NULL ? 0.0 : -least->value,
                                       most->bounds == NULL ? 0.0 : most->value);
        if (pair == NULL) {
            Py_DECREF(found);
            return NULL;
        }
        PyList_SetItem(found, i, pair);
    }
    return found;
}

/* ---- changed rows ------------------------------------------------------------------------ */

typedef struct {
    Py_buffer room;
    int64_t amount;
} Limit;

typedef struct {
    Py_ssize_t count;
    Py_ssize_t *rows;
    double *values; /* (weighers, count) */
    double *own;    /* (owns, count) */
    double *scores;
    uint8_t *passes;
    Limit *limits;
    Py_ssize_t limited;
    Py_buffer rank, kept, stages, factors;
} Change;

static void
drop(Change *change)
{
    for (Py_ssize_t i = 0; i < change->limited; i++) {
        give_back(&change->limits[i].room);
    }
    give_back(&change->rank);
    give_back(&change->kept);
    give_back(&change->stages);
    give_back(&change->factors);
    PyMem_Free(change->limits);
    PyMem_Free(change->rows);
}

/* Allocate all scratch arrays as one block. The widest elements come first, so that each array is
   aligned. */
static int
make_room(Board *self, Change *change, PyObject *rows)
{
    change->count = PyList_Size(rows);
    size_t count = (size_t)change->count + 1;
    size_t doubles = (size_t)self->weighers + (size_t)self->owns + 1;
    size_t each = sizeof(Py_ssize_t) + doubles * sizeof(double) + 1;
    change->rows = PyMem_Malloc(count * each);
    if (change->rows == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    change->values = (double *)(change->rows + count);
    change->own = change->values + count * (size_t)self->weighers;
    change->scores = change->own + count * (size_t)self->owns;
    change->passes = (uint8_t *)(change->scores + count);
    for (Py_ssize_t k = 0; k < change->count; k++) {
        Py_ssize_t row = PyLong_AsSsize_t(PyList_GetItem(rows, k));
        if (row == -1 && PyErr_Occurred()) {
            return -1;
        }
        if (row < 0 || row >= self->rows) {
            PyErr_Format(PyExc_IndexError, "row %zd is outside the table of %zd rows", row,
                         self->rows);
            return -1;
        }
        change->rows[k] = row;
    }
    return 0;
}

static int
take_limits(Board *self, Change *change, PyObject *limits)
{
    if (limits == Py_None) {
        return 0;
    }
    if (!PyList_Check(limits)) {
        PyErr_SetString(PyExc_TypeError, "limits: expected a list of (room, amount)");
        return -1;
    }
    Py_ssize_t count = PyList_Size(limits);
    change->limits = PyMem_Calloc((size_t)count + 1, sizeof(Limit));
    if (change->limits == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *room;
        long long amount;
        if (!PyArg_ParseTuple(PyList_GetItem(limits, i), "OL", &room, &amount)) {
            return -1;
        }
        Limit *limit = &change->limits[i];
        if (take(room, &limit->room, PyBUF_C_CONTIGUOUS, 8, self->rows, "room") < 0) {
            return -1;
        }
        limit->amount = amount;
        change->limited = i + 1;
    }
    return 0;
}

/* Read the values of the weighers without a line for one row, and store them `step` apart. */
static int
take_own(const Board *self, PyObject *from, double *into, Py_ssize_t step)
{
    if (!PyList_Check(from) || PyList_Size(from) != self->owns) {
        PyErr_SetString(PyExc_ValueError,
                        "own: expected per row one number per weigher without a line");
        return -1;
    }
    for (Py_ssize_t i = 0; i < self->owns; i++) {
        double value = PyFloat_AsDouble(PyList_GetItem(from, i));
        if (value == -1.0 && PyErr_Occurred()) {
            return -1;
        }
        into[i * step] = value;
    }
    return 0;
}

/* Return the k-th row's values in `own` as a borrowed reference, or NULL with an error set. */
static PyObject *
own_of(PyObject *own, Py_ssize_t k, Py_ssize_t count)
{
    if (!PyList_Check(own) || PyList_Size(own) != count) {
        PyErr_SetString(PyExc_ValueError, "own: expected one list per row");
        return NULL;
    }
    return PyList_GetItem(own, k);
}

static int
take_all_own(Board *self, Change *change, PyObject *own)
{
    for (Py_ssize_t k = 0; self->owns && k < change->count; k++) {
        PyObject *one = own_of(own, k, change->count);
        if (one == NULL || take_own(self, one, change->own + k, change->count) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Update the stages of the rows; return STAGES_MOVED if any has changed, else 0.

   A limit is tested only for rows that no earlier filter removes: stages are indices of filters,
   and the first filter that removes a host counts. */
static int
restage(Board *self, Change *change, int limited_stage)
{
    uint8_t *stage = self->stage.buf;
    const uint8_t *settled = self->settled.buf, *given = change->stages.buf;
    int64_t *counts = self->counts.buf;
    int moved = 0;
    for (Py_ssize_t k = 0; k < change->count; k++) {
        Py_ssize_t row = change->rows[k];
        int now = given == NULL ? settled[row] : given[k];
        if (given == NULL && now > limited_stage && now <= self->passed) {
            for (Py_ssize_t i = 0; i < change->limited; i++) {
                if (((const int64_t *)change->limits[i].room.buf)[row] < change->limits[i].amount) {
                    now = limited_stage;
                    break;
                }
            }
        }
        int was = stage[row];
        if (now != was) {
            if (was <= self->passed + 1) {
                counts[was]--;
            }
            if (now <= self->passed + 1) {
                counts[now]++;
            }
            stage[row] = (uint8_t)now;
            moved = STAGES_MOVED;
        }
        change->passes[k] = now == self->passed;
    }
    return moved;
}

/* Gather the values of the rows; return whether all are finite. Scores do not always reveal a value
   that is not: clipping makes it finite, and a factor of 0 hides it. */
static int
gather(Board *self, Change *change)
{
    const double *kept = change->kept.buf, *own = change->own;
    double *into = change->values;
    int finite = 1;
    for (Py_ssize_t i = 0; i < self->weighers; i++) {
        if (self->lines[i] >= 0) {
            const double *line = kept + self->lines[i] * self->rows;
            for (Py_ssize_t k = 0; k < change->count; k++) {
                into[k] = line[change->rows[k]];
            }
        }
        else {
            memcpy(into, own, (size_t)change->count * sizeof(double));
            own += change->count;
        }
        for (Py_ssize_t k = 0; k < change->count; k++) {
            finite &= isfinite(into[k]) != 0;
        }
        into += change->count;
    }
    return finite;
}

/* Update the extremes; return EXTREMES_MOVED, 0, or -1 with an error set.

   It follows `restage`, because an extreme is the greatest value of the rows that pass now. A
   search follows all rows, because a row that is noted later may hold the extreme again. */
static int
note_all(Board *self, Change *change, PyObject *search)
{
    int moved = 0;
    for (Py_ssize_t i = 0; i < self->weighers; i++) {
        const double *values = change->values + i * change->count;
        for (int side = 0; side < 2; side++) {
            Extreme *extreme = &self->extremes[2 * i + side];
            if (extreme->bounds == NULL) {
                continue;
            }
            double old = extreme->value;
            for (Py_ssize_t k = 0; k < change->count; k++) {
                double value = side ? -values[k] : values[k];
                note(self, extreme, change->rows[k], change->passes[k] ? value : -INFINITY);
            }
            if (extreme->is_stale) {
                const double *line = NULL;
                if (self->lines[i] >= 0) {
                    line = (const double *)change->kept.buf + self->lines[i] * self->rows;
                }
                if (search_anew(self, i, side ? -1 : 1, line, search, extreme) < 0) {
                    return -1;
                }
            }
            if (extreme->value != old) {
                moved = EXTREMES_MOVED;
            }
        }
    }
    return moved;
}

/* Score the rows on the scales of the stored scores; return whether all scores are finite.

   Extremes that have just moved do not matter here: all stored scores stay on the reference scales,
   so that they remain comparable, and the caller accounts for the drift. */
static int
score(Board *self, Change *change)
{
    const double *factors = change->factors.buf;
    double *total = change->scores;
    int finite = 1;
    for (Py_ssize_t k = 0; k < change->count; k++) {
        total[k] = 0.0;
    }
    for (Py_ssize_t i = 0; i < self->weighers; i++) {
        const double *values = change->values + i * change->count;
        const Ends *ends = &self->ends[i];
        if (factors == NULL && ends->factor == 0.0) {
            continue;
        }
        for (Py_ssize_t k = 0; k < change->count; k++) {
            double gain = values[k];
            if (!self->by_share) {
                gain = gain < ends->floor ? ends->floor : gain;
                gain = gain > ends->ceiling ? ends->ceiling : gain;
                gain = (gain - ends->low) / ends->span;
            }
            gain *= factors == NULL ? ends->factor : factors[i * change->count + k];
            total[k] += gain;
        }
    }
    for (Py_ssize_t k = 0; k < change->count; k++) {
        finite &= isfinite(total[k]) != 0;
    }
    return finite;
}

/* Store the scores of the rows, and update the maxima of their blocks. A block is scanned only when
   the score that was its maximum falls. */
static int
put(Board *self, Change *change)
{
    const int64_t *rank = change->rank.buf;
    double *scores = self->scores.buf, *greatest = self->greatest.buf;
    for (Py_ssize_t k = 0; k < change->count; k++) {
        Py_ssize_t position = rank == NULL ? change->rows[k] : (Py_ssize_t)rank[change->rows[k]];
        if (position < 0 || position >= self->blocks << self->shift) {
            PyErr_Format(PyExc_IndexError, "rank: position %zd is out of range", position);
            return -1;
        }
        Py_ssize_t block = position >> self->shift;
        double now = change->passes[k] ? change->scores[k] : -INFINITY;
        double was = scores[position];
        scores[position] = now;
        if (now >= greatest[block]) {
            greatest[block] = now;
        }
        else if (was == greatest[block]) {
            const double *inside = scores + (block << self->shift);
            double most = -INFINITY;
            for (Py_ssize_t i = 0; i < (Py_ssize_t)1 << self->shift; i++) {
                most = inside[i] > most ? inside[i] : most;
            }
            greatest[block] = most;
        }
    }
    return 0;
}

static PyObject *
board_update(PyObject *object, PyObject *changes)
{
    Board *self = (Board *)object;
    PyObject *rows, *rank, *kept, *limits, *stages, *own, *factors, *search;
    int limited_stage;
    if (!PyTuple_Check(changes)) {
        PyErr_SetString(PyExc_TypeError, "update takes one tuple");
        return NULL;
    }
    if (!PyArg_ParseTuple(changes, "O!OOOiOOOO", &PyList_Type, &rows, &rank, &kept, &limits,
                          &limited_stage, &stages, &own, &factors, &search)) {
        return NULL;
    }
    Change change;
    memset(&change, 0, sizeof(change));
    PyObject *result = NULL;
    if (make_room(self, &change, rows) < 0) {
        goto done;
    }
    Py_ssize_t lines = 0;
    for (Py_ssize_t i = 0; i < self->weighers; i++) {
        lines = self->lines[i] >= lines ? self->lines[i] + 1 : lines;
    }
    if (take_or_none(rank, &change.rank, 8, self->rows, "rank") < 0 ||
        take_or_none(kept, &change.kept, 8, lines * self->rows, "kept") < 0 ||
        take_or_none(stages, &change.stages, 1, change.count, "stages") < 0 ||
        take_or_none(factors, &change.factors, 8, self->weighers * change.count, "factors") < 0 ||
        take_limits(self, &change, limits) < 0 || take_all_own(self, &change, own) < 0) {
        goto done;
    }
    if (lines && change.kept.buf == NULL) {
        PyErr_SetString(PyExc_ValueError, "kept: missing, but some weighers have a line");
        goto done;
    }
    /* From here on the Board is modified. If a later step fails, the caller drops the profile. */
    int flags = restage(self, &change, limited_stage);
    if (!gather(self, &change)) {
        result = PyLong_FromLong(flags | VALUES_UNFIT);
        goto done;
    }
    if (!self->by_share) {
        int moved = note_all(self, &change, search);
        if (moved < 0) {
            goto done;
        }
        flags |= moved;
    }
    if (!score(self, &change)) {
        flags |= SCORES_UNFIT;
    }
    else if (put(self, &change) < 0) {
        goto done;
    }
    result = PyLong_FromLong(flags);
done:
    drop(&change);
    return result;
}

/* ---- rescaling --------------------------------------------------------------------------- */

/* Rows that are scored weigher by weigher before the next rows, so that their sums stay in the
   first-level cache. */
#define STRETCH 1024

/* Score a stretch of rows into `total`; return flags. */
static int
score_stretch(const Board *self, const double *kept, Py_ssize_t start, Py_ssize_t count,
              double *total)
{
    const uint8_t *stage = self->stage.buf;
    int unfit = 0;
    for (Py_ssize_t k = 0; k < count; k++) {
        total[k] = 0.0;
    }
    for (Py_ssize_t i = 0; i < self->weighers; i++) {
        const double *values = kept + self->lines[i] * self->rows + start;
        const Ends ends = self->ends[i];
        int finite = 1;
        for (Py_ssize_t k = 0; k < count; k++) {
            finite &= isfinite(values[k]) != 0;
        }
        unfit |= finite ? 0 : VALUES_UNFIT;
        if (ends.factor == 0.0) {
            continue;
        }
        for (Py_ssize_t k = 0; k < count; k++) {
            double gain = values[k];
            if (!self->by_share) {
                gain = gain < ends.floor ? ends.floor : gain;
                gain = gain > ends.ceiling ? ends.ceiling : gain;
                gain = (gain - ends.low) / ends.span;
            }
            gain *= ends.factor;
            total[k] += gain;
        }
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        if (stage[start + k] != self->passed) {
            total[k] = -INFINITY;
        }
        else if (!isfinite(total[k])) {
            unfit |= SCORES_UNFIT;
        }
    }
    return unfit;
}

static PyObject *
board_rescale(PyObject *object, PyObject *args)
{
    Board *self = (Board *)object;
    PyObject *from, *kept_from;
    Py_buffer order, kept;
    Py_ssize_t lines = 0;
    int flags = 0;
    if (!PyArg_ParseTuple(args, "OO", &from, &kept_from)) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < self->weighers; i++) {
        if (self->lines[i] < 0) {
            PyErr_SetString(PyExc_ValueError, "rescale: some weighers have no line");
            return NULL;
        }
        lines = self->lines[i] >= lines ? self->lines[i] + 1 : lines;
    }
    if (take(kept_from, &kept, PyBUF_C_CONTIGUOUS, 8, lines * self->rows, "kept") < 0) {
        return NULL;
    }
    if (take_or_none(from, &order, 8, 0, "order") < 0) {
        PyBuffer_Release(&kept);
        return NULL;
    }
    double *scores = self->scores.buf, *greatest = self->greatest.buf, *totals = NULL;
    const Py_ssize_t places = self->blocks << self->shift;
    Py_ssize_t ranked = self->rows;
    PyObject *result = NULL;
    if (order.buf != NULL) {
        ranked = order.len / 8;
        totals = PyMem_Malloc(((size_t)self->rows + 1) * sizeof(double));
        if (totals == NULL) {
            PyErr_NoMemory();
            goto done;
        }
        if (ranked > places) {
            PyErr_SetString(PyExc_ValueError, "order: longer than scores");
            goto done;
        }
    }
    double *into = totals == NULL ? scores : totals;
    for (Py_ssize_t start = 0; start < self->rows; start += STRETCH) {
        Py_ssize_t count = self->rows - start < STRETCH ? self->rows - start : STRETCH;
        flags |= score_stretch(self, kept.buf, start, count, into + start);
    }
    for (Py_ssize_t p = 0; totals != NULL && p < ranked; p++) {
        Py_ssize_t row = (Py_ssize_t)((const int64_t *)order.buf)[p];
        if (row < 0 || row >= self->rows) {
            PyErr_Format(PyExc_IndexError, "row %zd is outside the table of %zd rows", row,
                         self->rows);
            goto done;
        }
        scores[p] = totals[row];
    }
    for (Py_ssize_t p = ranked; p < places; p++) {
        scores[p] = -INFINITY;
    }
    for (Py_ssize_t b = 0; b < self->blocks; b++) {
        const double *inside = scores + (b << self->shift);
        double most = -INFINITY;
        for (Py_ssize_t i = 0; i < (Py_ssize_t)1 << self->shift; i++) {
            most = inside[i] > most ? inside[i] : most;
        }
        greatest[b] = most;
    }
    result = PyLong_FromLong(flags);
done:
    PyMem_Free(totals);
    give_back(&order);
    give_back(&kept);
    return result;
}

/* ---- the best scores --------------------------------------------------------------------- */

/* Insert into a list that is ordered best first. An entry goes behind its equals: entries are
   inserted in the order of positions, which is the order of names and breaks ties. */
static Py_ssize_t
insert(double *scores, Py_ssize_t *places, Py_ssize_t held, Py_ssize_t most, double score,
       Py_ssize_t place)
{
    if (held == most) {
        if (score <= scores[held - 1]) {
            return held;
        }
        held--;
    }
    Py_ssize_t at = held;
    while (at > 0 && scores[at - 1] < score) {
        scores[at] = scores[at - 1];
        places[at] = places[at - 1];
        at--;
    }
    scores[at] = score;
    places[at] = place;
    return held + 1;
}

static PyObject *
board_best(PyObject *object, PyObject *args)
{
    Board *self = (Board *)object;
    PyObject *from;
    Py_ssize_t count, held = 0, above = 0;
    double scores[BEST_MAX], bound = -INFINITY;
    Py_ssize_t places[BEST_MAX];
    Py_buffer order;
    if (!PyArg_ParseTuple(args, "nO", &count, &from)) {
        return NULL;
    }
    if (count < 1 || count > BEST_MAX) {
        PyErr_Format(PyExc_ValueError, "count must be between 1 and %d", BEST_MAX);
        return NULL;
    }
    if (take_or_none(from, &order, 8, 0, "order") < 0) {
        return NULL;
    }
    const double *greatest = self->greatest.buf, *all = self->scores.buf;
    for (Py_ssize_t b = 0; b < self->blocks; b++) {
        above = insert(scores, places, above, count, greatest[b], b);
    }
    if (above == count) {
        /* At least `count` blocks hold a score each that is not below this. */
        bound = scores[count - 1];
    }
    const Py_ssize_t width = (Py_ssize_t)1 << self->shift;
    for (Py_ssize_t b = 0; b < self->blocks; b++) {
        if (greatest[b] < bound || greatest[b] == -INFINITY ||
            (held == count && greatest[b] <= scores[held - 1])) {
            continue;
        }
        const double *inside = all + b * width;
        for (Py_ssize_t i = 0; i < width; i++) {
            if (inside[i] >= bound && inside[i] != -INFINITY) {
                held = insert(scores, places, held, count, inside[i], b * width + i);
            }
        }
    }
    PyObject *found = PyList_New(held);
    for (Py_ssize_t i = 0; found != NULL && i < held; i++) {
        Py_ssize_t place = places[i];
        if (order.buf != NULL) {
            if (place >= order.len / 8) {
                PyErr_SetString(PyExc_IndexError, "order: too short");
                Py_CLEAR(found);
                break;
            }
            place = (Py_ssize_t)((const int64_t *)order.buf)[place];
        }
        PyObject *number = PyLong_FromSsize_t(place);
        if (number == NULL) {
            Py_CLEAR(found);
            break;
        }
        PyList_SetItem(found, i, number);
    }
    give_back(&order);
    return found;
}

/* ---- parts of scores --------------------------------------------------------------------- */

static PyObject *
board_set_told(PyObject *object, PyObject *each)
{
    Board *self = (Board *)object;
    if (!PyTuple_Check(each)) {
        PyErr_SetString(PyExc_TypeError, "told: expected a tuple of (index, value, factor)");
        return NULL;
    }
    Py_ssize_t count = PyTuple_Size(each);
    Told *tells = PyMem_Calloc((size_t)count + 1, sizeof(Told));
    if (tells == NULL) {
        return PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Told *one = &tells[i];
        if (!PyArg_ParseTuple(PyTuple_GetItem(each, i), "ndd", &one->index, &one->value,
                              &one->factor)) {
            PyMem_Free(tells);
            return NULL;
        }
        if (one->index < -1 || one->index >= self->weighers) {
            PyMem_Free(tells);
            PyErr_SetString(PyExc_IndexError, "weigher out of range");
            return NULL;
        }
        one->own = -1;
        if (one->index >= 0 && self->lines[one->index] < 0) {
            one->own = 0;
            for (Py_ssize_t j = 0; j < one->index; j++) {
                one->own += self->lines[j] < 0;
            }
        }
    }
    PyMem_Free(self->tells);
    self->tells = tells;
    self->told = count;
    Py_RETURN_NONE;
}

static PyObject *
told_of(Board *self, const double *kept, const double *own, Py_ssize_t row)
{
    PyObject *raw = PyTuple_New(self->told), *normalised = PyTuple_New(self->told);
    double score = 0.0;
    if (raw == NULL || normalised == NULL) {
        goto failed;
    }
    for (Py_ssize_t i = 0; i < self->told; i++) {
        const Told *one = &self->tells[i];
        double value = one->value, share = 0.0;
        if (one->index >= 0) {
            const Ends *ends = &self->ends[one->index];
            value = one->own < 0 ? kept[self->lines[one->index] * self->rows + row] : own[one->own];
            if (!isfinite(value)) {
                PyErr_SetString(PyExc_ArithmeticError, "a value is not finite");
                goto failed;
            }
            if (self->by_share) {
                share = value;
            }
            else if (ends->factor != 0.0) {
                share = value < ends->floor ? ends->floor : value;
                share = share > ends->ceiling ? ends->ceiling : share;
                share = (share - ends->low) / ends->span;
            }
        }
        score += share * one->factor;
        PyObject *first = PyFloat_FromDouble(value), *second = PyFloat_FromDouble(share);
        if (first == NULL || second == NULL) {
            Py_XDECREF(first);
            Py_XDECREF(second);
            goto failed;
        }
        PyTuple_SetItem(raw, i, first);
        PyTuple_SetItem(normalised, i, second);
    }
    return Py_BuildValue("(dNN)", score, raw, normalised);
failed:
    Py_XDECREF(raw);
    Py_XDECREF(normalised);
    return NULL;
}

static PyObject *
board_tell(PyObject *object, PyObject *args)
{
    Board *self = (Board *)object;
    PyObject *rows, *from, *own;
    Py_buffer kept;
    Py_ssize_t lines = 0;
    if (!PyArg_ParseTuple(args, "O!OO", &PyList_Type, &rows, &from, &own)) {
        return NULL;
    }
    for (Py_ssize_t i = 0; i < self->weighers; i++) {
        lines = self->lines[i] >= lines ? self->lines[i] + 1 : lines;
    }
    if (take(from, &kept, PyBUF_C_CONTIGUOUS, 8, lines * self->rows, "kept") < 0) {
        return NULL;
    }
    Py_ssize_t count = PyList_Size(rows);
    PyObject *found = PyList_New(count);
    double *mine = PyMem_Malloc(((size_t)self->owns + 1) * sizeof(double));
    if (mine == NULL) {
        Py_CLEAR(found);
        PyErr_NoMemory();
    }
    for (Py_ssize_t k = 0; found != NULL && k < count; k++) {
        Py_ssize_t row = PyLong_AsSsize_t(PyList_GetItem(rows, k));
        PyObject *one = NULL, *given = NULL;
        if (row < 0 || row >= self->rows) {
            if (!PyErr_Occurred()) {
                PyErr_Format(PyExc_IndexError, "row %zd is outside the table of %zd rows", row,
                             self->rows);
            }
        }
        else if (!self->owns || ((given = own_of(own, k, count)) != NULL &&
                                 take_own(self, given, mine, 1) == 0)) {
            one = told_of(self, kept.buf, mine, row);
        }
        if (one == NULL) {
            Py_CLEAR(found);
            break;
        }
        PyList_SetItem(found, k, one);
    }
    PyMem_Free(mine);
    PyBuffer_Release(&kept);
    return found;
}

/* ---- the module -------------------------------------------------------------------------- */

static PyMethodDef board_methods[] = {
    {"set_ends", board_set_ends, METH_O,
     "set_ends(each): set the scales; (floor, ceiling, low, span, factor) for each weigher."},
    {"begin", board_begin, METH_VARARGS,
     "begin(index, sign, values): track the greatest of a weigher's values, or of their\n"
     "negatives, among the rows that pass."},
    {"extremes", board_extremes, METH_NOARGS,
     "extremes(): (least, greatest) of each weigher's values; 0 for a side not tracked."},
    {"update", board_update, METH_O,
     "update((rows, rank, kept, limits, limited_stage, stages, own, factors, search)): update\n"
     "changed rows; return flags."},
    {"rescale", board_rescale, METH_VARARGS,
     "rescale(order, kept): score every row; return flags."},
    {"set_told", board_set_told, METH_O,
     "set_told(each): the terms of `tell`; (index, idle value, factor), idle ones with index -1."},
    {"tell", board_tell, METH_VARARGS,
     "tell(rows, kept, own): (score, raw values, normalised values) of each row."},
    {"best", board_best, METH_VARARGS,
     "best(count, order): the positions of the greatest scores, or what `order` has at them."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot board_slots[] = {
    {Py_tp_doc, "The scores of one request profile, updated as few hosts change."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_init, board_init},
    {Py_tp_dealloc, board_dealloc},
    {Py_tp_methods, board_methods},
    {0, NULL},
};

static PyType_Spec board_spec = {
    .name = "berth_kernel.Board",
    .basicsize = sizeof(Board),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = board_slots,
};

static int
fill_module(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&board_spec);
    if (type == NULL) {
        return -1;
    }
    if (PyModule_AddObject(module, "Board", type) < 0) {
        Py_DECREF(type);
        return -1;
    }
    if (PyModule_AddIntConstant(module, "API", BERTH_KERNEL_API) < 0 ||
        PyModule_AddIntConstant(module, "BEST_MAX", BEST_MAX) < 0 ||
        PyModule_AddIntConstant(module, "STAGES_MOVED", STAGES_MOVED) < 0 ||
        PyModule_AddIntConstant(module, "EXTREMES_MOVED", EXTREMES_MOVED) < 0 ||
        PyModule_AddIntConstant(module, "SCORES_UNFIT", SCORES_UNFIT) < 0 ||
        PyModule_AddIntConstant(module, "VALUES_UNFIT", VALUES_UNFIT) < 0) {
        return -1;
    }
    return 0;
}

static PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, fill_module},
    {0, NULL},
};

static struct PyModuleDef module_def = {
    PyModuleDef_HEAD_INIT,
    .m_name = "berth_kernel",
    .m_doc = "The inner loops of Berth's scheduling engine.",
    .m_size = 0,
    .m_slots = module_slots,
};

PyMODINIT_FUNC
PyInit_berth_kernel(void)
{
    return PyModuleDef_Init(&module_def);
}

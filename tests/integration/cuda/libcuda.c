/* A stand-in for the CUDA driver: it computes nothing, and records what it is asked to do.
 *
 * It is told what to be by the file that KERNELYARD_DRIVER names, a setting a line:
 *
 *   record <file>                  where to record, a JSON object a line; without it nothing is recorded
 *   driver <version>               as cuDriverGetVersion says it: 13000
 *   device <capability> <shared>   a device: 90 for 9.0, and the bytes of shared memory that a block can have
 *   entry <symbol> <shared> <machine> <portable> <sizes>
 *                                  a kernel that libraries have: its own shared memory, the capabilities of its machine
 *                                  code (90a: for that one alone) and of its portable code, and the sizes of its
 *                                  parameters, each `-` or as in 80,90a
 *   fail <call> <status> <times>   make the next calls of a function fail
 *
 * What is not in a fatbin's header it cannot know, so it is told: which code there is, and how large parameters are.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_DEVICES = 8, MOST_ENTRIES = 1024, MOST_PARAMETERS = 64, MOST_VARIANTS = 16, MOST_CONTEXTS = 64 };
enum { ALWAYS_ALLOWED = 48 << 10, EXACT = 1000, FATBIN = 0xBA55ED50 };
enum { SUCCESS, INVALID_VALUE, NOT_INITIALIZED = 3, INVALID_DEVICE = 101, INVALID_IMAGE = 200, INVALID_CONTEXT = 201,
       NO_BINARY_FOR_GPU = 209, NOT_FOUND = 500 };

typedef struct { int device, primary; } Context;
typedef struct { char symbol[256]; int shared, machine[MOST_VARIANTS], portable[MOST_VARIANTS], sizes[MOST_PARAMETERS];
                 int allowed[MOST_DEVICES]; } Entry;
typedef struct { int number; } Library;
typedef struct { Entry *entry; int library; } Kernel;
typedef struct { char call[64]; int status, times; } Fault;

static int record = -1, driver_version, device_count, entry_count, fault_count, context_count, library_count, ready;
static char record_path[3072];
static struct { int capability, shared, retained; } devices[MOST_DEVICES];
static Entry entries[MOST_ENTRIES];
static Fault faults[16];
static Context primary[MOST_DEVICES], made[MOST_CONTEXTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local Context *stack[32];
static _Thread_local int depth;

/* --- settings --- */

/* Numbers as in 80,90a; the list ends with -1. */
static void numbers(const char *text, int *list) {
    int count = 0;
    for (const char *at = text; *at && strcmp(text, "-"); at += strcspn(at, ",") + (strchr(at, ',') != NULL)) {
        char *end;
        list[count] = strtol(at, &end, 10);
        list[count++] += *end == 'a' ? EXACT : 0;
    }
    list[count] = -1;
}

static void setting(const char *line) {
    char machine[256], portable[256], sizes[512];
    Entry *entry = &entries[entry_count];
    Fault *fault = &faults[fault_count];
    int first, second;
    if (sscanf(line, "record %3000[^\n]", record_path) == 1) {
        record = open(record_path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    } else if (sscanf(line, "device %d %d", &first, &second) == 2) {
        devices[device_count].capability = first;
        devices[device_count].shared = second;
        primary[device_count] = (Context){device_count, 1};
        device_count++;
    } else if (sscanf(line, "entry %255s %d %255s %255s %511s", entry->symbol, &entry->shared, machine, portable,
                      sizes) == 5) {
        numbers(machine, entry->machine);
        numbers(portable, entry->portable);
        numbers(sizes, entry->sizes);
        for (int device = 0; device < MOST_DEVICES; device++)
            entry->allowed[device] = entry->shared > ALWAYS_ALLOWED ? 0 : ALWAYS_ALLOWED - entry->shared;
        entry_count++;
    } else if (sscanf(line, "fail %63s %d %d", fault->call, &fault->status, &fault->times) == 3) {
        fault_count++;
    } else {
        sscanf(line, "driver %d", &driver_version);
    }
}

__attribute__((constructor)) static void read_settings(void) {
    const char *path = getenv("KERNELYARD_DRIVER");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[4096];
    while (file && fgets(line, sizeof line, file))
        setting(line);
    if (file)
        fclose(file);
}

/* --- the record --- */

/* Record a call and return how it ended. One write a line: threads do not mix. */
__attribute__((format(printf, 3, 4))) static unsigned done(const char *call, unsigned status, const char *format, ...) {
    if (record < 0)
        return status;
    char line[8192];
    Context *context = depth ? stack[depth - 1] : NULL;
    int length = snprintf(line, sizeof line, "{\"call\": \"%s\", \"status\": %u, \"context\": %d", call, status,
                          context ? context->device : -1);
    va_list arguments;
    va_start(arguments, format);
    length += vsnprintf(line + length, sizeof line - length, format, arguments);
    va_end(arguments);
    length += snprintf(line + length, sizeof line - length, "}\n");
    if (write(record, line, length) != length)
        abort();
    return status;
}

static unsigned fault(const char *call) {
    unsigned status = SUCCESS;
    pthread_mutex_lock(&lock);
    for (int index = 0; index < fault_count && !status; index++)
        if (!strcmp(faults[index].call, call) && faults[index].times > 0) {
            faults[index].times--;
            status = faults[index].status;
        }
    pthread_mutex_unlock(&lock);
    return status;
}

/* What each function begins with: fail if so told, or if the driver is not initialized. */
#define BEGIN(call)                                                                                                    \
    do {                                                                                                               \
        unsigned told = fault(#call);                                                                                  \
        if (told || !ready)                                                                                            \
            return done(#call, told ? told : NOT_INITIALIZED, " ");                                                    \
    } while (0)

#define END(call, status, ...) return done(#call, status, " " __VA_ARGS__)

/* --- the driver and its devices --- */

unsigned cuInit(unsigned flags) {
    unsigned told = fault("cuInit");
    ready = ready || !told;
    END(cuInit, told ? told : flags ? INVALID_VALUE : SUCCESS);
}

unsigned cuDriverGetVersion(int *version) {
    /* This one may be called before cuInit. */
    unsigned told = fault("cuDriverGetVersion");
    *version = driver_version;
    END(cuDriverGetVersion, told);
}

static const struct { unsigned status; const char *name, *text; } ERRORS[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
};

static unsigned error_text(unsigned status, const char **text, int name) {
    *text = NULL;
    for (size_t index = 0; index < sizeof ERRORS / sizeof *ERRORS; index++)
        if (ERRORS[index].status == status)
            *text = name ? ERRORS[index].name : ERRORS[index].text;
    return *text ? SUCCESS : INVALID_VALUE;
}

unsigned cuGetErrorName(unsigned status, const char **text) { return error_text(status, text, 1); }
unsigned cuGetErrorString(unsigned status, const char **text) { return error_text(status, text, 0); }

unsigned cuDeviceGetCount(int *count) {
    BEGIN(cuDeviceGetCount);
    *count = device_count;
    END(cuDeviceGetCount, SUCCESS);
}

unsigned cuDeviceGet(int *device, int ordinal) {
    BEGIN(cuDeviceGet);
    *device = ordinal;
    END(cuDeviceGet, ordinal < device_count ? SUCCESS : INVALID_DEVICE, ", \"device\": %d", ordinal);
}

unsigned cuDeviceGetAttribute(int *value, int attribute, int device) {
    BEGIN(cuDeviceGetAttribute);
    unsigned status = SUCCESS;
    switch (attribute) {
    case 5: *value = 2147483647; break; /* MAX_GRID_DIM_X */
    case 6: /* MAX_GRID_DIM_Y */
    case 7: *value = 65535; break; /* MAX_GRID_DIM_Z */
    case 75: *value = devices[device].capability / 10; break; /* COMPUTE_CAPABILITY_MAJOR */
    case 76: *value = devices[device].capability % 10; break; /* COMPUTE_CAPABILITY_MINOR */
    case 97: *value = devices[device].shared; break; /* MAX_SHARED_MEMORY_PER_BLOCK_OPTIN */
    default: status = INVALID_VALUE;
    }
    END(cuDeviceGetAttribute, status, ", \"attribute\": %d, \"device\": %d", attribute, device);
}

/* --- contexts --- */

unsigned cuDevicePrimaryCtxRetain(Context **context, int device) {
    BEGIN(cuDevicePrimaryCtxRetain);
    *context = &primary[device];
    devices[device].retained = 1;
    END(cuDevicePrimaryCtxRetain, SUCCESS, ", \"device\": %d", device);
}

unsigned cuCtxCreate_v2(Context **context, unsigned flags, int device) {
    BEGIN(cuCtxCreate_v2);
    pthread_mutex_lock(&lock);
    *context = &made[context_count++];
    pthread_mutex_unlock(&lock);
    **context = (Context){device, 0};
    stack[depth++] = *context;
    END(cuCtxCreate_v2, SUCCESS, ", \"device\": %d, \"flags\": %u", device, flags);
}

unsigned cuCtxGetCurrent(Context **context) {
    BEGIN(cuCtxGetCurrent);
    *context = depth ? stack[depth - 1] : NULL;
    END(cuCtxGetCurrent, SUCCESS);
}

unsigned cuCtxGetDevice(int *device) {
    BEGIN(cuCtxGetDevice);
    *device = depth ? stack[depth - 1]->device : -1;
    END(cuCtxGetDevice, depth ? SUCCESS : INVALID_CONTEXT);
}

unsigned cuCtxPushCurrent_v2(Context *context) {
    BEGIN(cuCtxPushCurrent_v2);
    stack[depth++] = context;
    END(cuCtxPushCurrent_v2, SUCCESS);
}

unsigned cuCtxPopCurrent_v2(Context **context) {
    unsigned told = fault("cuCtxPopCurrent_v2");
    if (told || !depth)
        END(cuCtxPopCurrent_v2, told ? told : INVALID_CONTEXT);
    *context = stack[--depth];
    END(cuCtxPopCurrent_v2, SUCCESS);
}

/* --- libraries and kernels --- */

#ifndef OLD

/* Keep a fatbin beside the record, for tests to look into. */
static void keep(const void *code, uint64_t size, int number) {
    char path[4096];
    snprintf(path, sizeof path, "%s.%d.fatbin", record_path, number);
    FILE *file = fopen(path, "w");
    if (!file || fwrite(code, 1, size, file) != size || fclose(file))
        abort();
}

unsigned cuLibraryLoadData(Library **library, const void *code, void *jit, void **jit_values, unsigned jit_count,
                           void *options, void **values, unsigned count) {
    BEGIN(cuLibraryLoadData);
    struct { uint32_t magic; uint16_t version, header; uint64_t size; } head;
    memcpy(&head, code, sizeof head);
    if (head.magic != FATBIN || (uintptr_t)code % 8)
        END(cuLibraryLoadData, INVALID_IMAGE, ", \"magic\": %u", head.magic);
    /* Long enough for other threads to want the same. */
    usleep(2000);
    pthread_mutex_lock(&lock);
    int number = library_count++;
    pthread_mutex_unlock(&lock);
    if (record >= 0)
        keep(code, head.header + head.size, number);
    *library = malloc(sizeof **library);
    (*library)->number = number;
    END(cuLibraryLoadData, SUCCESS, ", \"magic\": %u, \"library\": %d, \"options\": %u", head.magic, number,
        jit_count + count);
}

unsigned cuLibraryGetKernel(Kernel **kernel, Library *library, const char *symbol) {
    BEGIN(cuLibraryGetKernel);
    for (int index = 0; index < entry_count; index++)
        if (!strcmp(entries[index].symbol, symbol)) {
            *kernel = malloc(sizeof **kernel);
            **kernel = (Kernel){&entries[index], library->number};
            END(cuLibraryGetKernel, SUCCESS, ", \"entry\": \"%s\", \"library\": %d", symbol, library->number);
        }
    END(cuLibraryGetKernel, NOT_FOUND);
}

/* The code that a driver takes: machine code for just this capability, else the newest of its major version, else what
 * it compiles from portable code. */
static int binary(const Entry *entry, int capability) {
    int best = -1;
    for (const int *code = entry->machine; *code >= 0; code++)
        if (*code == capability + EXACT)
            best = capability;
        else if (*code / 10 == capability / 10 && *code <= capability && *code > best)
            best = *code;
    for (const int *code = entry->portable; *code >= 0 && best < 0; code++)
        if (*code <= capability)
            best = capability;
    return best;
}

unsigned cuKernelGetAttribute(int *value, int attribute, const Kernel *kernel, int device) {
    BEGIN(cuKernelGetAttribute);
    unsigned status = devices[device].retained ? SUCCESS : INVALID_CONTEXT;
    int code = binary(kernel->entry, devices[device].capability);
    switch (attribute) {
    case 1: *value = kernel->entry->shared; break; /* SHARED_SIZE_BYTES */
    case 6: *value = code; break; /* BINARY_VERSION */
    default: status = INVALID_VALUE;
    }
    status = status ? status : code < 0 ? NO_BINARY_FOR_GPU : SUCCESS;
    END(cuKernelGetAttribute, status, ", \"attribute\": %d, \"device\": %d", attribute, device);
}

unsigned cuKernelSetAttribute(int attribute, int value, Kernel *kernel, int device) {
    BEGIN(cuKernelSetAttribute);
    /* MAX_DYNAMIC_SHARED_SIZE_BYTES */
    int fits = attribute == 8 && value >= 0 && value + kernel->entry->shared <= devices[device].shared;
    if (fits)
        kernel->entry->allowed[device] = value;
    END(cuKernelSetAttribute, fits ? SUCCESS : INVALID_VALUE,
        ", \"attribute\": %d, \"value\": %d, \"entry\": \"%s\", \"device\": %d", attribute, value,
        kernel->entry->symbol, device);
}

/* The bytes of each argument as a list of hexadecimal strings. */
static void shown(char *text, const Entry *entry, void **parameters) {
    for (int index = 0; entry->sizes[index] >= 0; index++) {
        text += sprintf(text, index ? ", \"" : "\"");
        for (int byte = 0; byte < entry->sizes[index]; byte++)
            text += sprintf(text, "%02x", ((unsigned char *)parameters[index])[byte]);
        text += sprintf(text, "\"");
    }
}

unsigned cuLaunchKernel(const Kernel *kernel, unsigned x, unsigned y, unsigned z, unsigned block_x, unsigned block_y,
                        unsigned block_z, unsigned shared, void *stream, void **parameters, void **extra) {
    BEGIN(cuLaunchKernel);
    unsigned status = depth ? SUCCESS : INVALID_CONTEXT;
    if (!(x && y && z && block_x && block_y && block_z) || x > 2147483647 || y > 65535 || z > 65535 || extra)
        status = INVALID_VALUE;
    if (!status && (int)shared > kernel->entry->allowed[stack[depth - 1]->device])
        status = INVALID_VALUE;
    if (record < 0)
        return status;
    char arguments[4096] = "";
    shown(arguments, kernel->entry, parameters);
    END(cuLaunchKernel, status,
        ", \"entry\": \"%s\", \"library\": %d, \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"shared\": %u, "
        "\"stream\": %llu, \"primary\": %s, \"arguments\": [%s]",
        kernel->entry->symbol, kernel->library, x, y, z, block_x, block_y, block_z, shared,
        (unsigned long long)(uintptr_t)stream, depth && stack[depth - 1]->primary ? "true" : "false", arguments);
}

#endif

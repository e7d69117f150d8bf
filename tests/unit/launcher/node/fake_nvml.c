// SPDX-License-Identifier: Apache-2.0
// A library with NVML's names for two GPUs: 0000:07:00.0, cut into MIG instances 0 and 2, and
// 0000:47:00.0. HVD_FAKE_NVML_BROKEN makes it refuse to start. HVD_FAKE_NVML_FAULT is the Xid of an
// event of the second GPU, or "ecc", or "94@2": of an instance of the first GPU; it is told once.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

enum { kSuccess = 0, kNotFound = 6, kTimeout = 10, kUnknown = 999 };
static const char* const kUuids[] = {"GPU-aa", "GPU-bb", "MIG-00", "", "MIG-02"};
static int running;

EXPORTED int nvmlInit_v2(void) {
  if (getenv("HVD_FAKE_NVML_BROKEN") != NULL) return kUnknown;
  ++running;
  return kSuccess;
}

EXPORTED int nvmlShutdown(void) {
  --running;
  return kSuccess;
}

EXPORTED int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, void** device) {
  if (running < 1) return kUnknown;
  if (strcmp(bus_id, "0000:07:00.0") == 0) {
    *device = (void*)&kUuids[0];
    return kSuccess;
  }
  if (strcmp(bus_id, "0000:47:00.0") == 0) {
    *device = (void*)&kUuids[1];
    return kSuccess;
  }
  return kNotFound;
}

// HVD_FAKE_NVML_PEERS is an nvmlGpuP2PStatus_t, or "error".
EXPORTED int nvmlDeviceGetP2PStatus(void* one, void* other, int capability, int* status) {
  const char* peers = getenv("HVD_FAKE_NVML_PEERS");
  if (running < 1 || one == other || capability != 0) return kUnknown;
  if (peers != NULL && strcmp(peers, "error") == 0) return kUnknown;
  *status = peers == NULL ? 0 : atoi(peers);
  return kSuccess;
}

EXPORTED int nvmlDeviceGetUUID(void* device, char* text, unsigned size) {
  snprintf(text, size, "%s", *(const char* const*)device);
  return kSuccess;
}

EXPORTED int nvmlDeviceGetName(void* device, char* text, unsigned size) {
  snprintf(text, size, "Fake %s", *(const char* const*)device);
  return kSuccess;
}

EXPORTED int nvmlDeviceGetMigMode(void* device, unsigned* current, unsigned* pending) {
  *current = *pending = device == (void*)&kUuids[0];
  return kSuccess;
}

EXPORTED int nvmlDeviceGetMaxMigDeviceCount(void* device, unsigned* count) {
  *count = device == (void*)&kUuids[0] ? 3 : 0;
  return kSuccess;
}

EXPORTED int nvmlDeviceGetMigDeviceHandleByIndex(void* device, unsigned index, void** instance) {
  if (device != (void*)&kUuids[0] || index == 1 || index > 2) return kNotFound;
  *instance = (void*)&kUuids[2 + index];
  return kSuccess;
}

EXPORTED int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  for (unsigned i = 0; running > 0 && i < sizeof kUuids / sizeof kUuids[0]; ++i) {
    if (strcmp(uuid, kUuids[i]) != 0) continue;
    *device = (void*)&kUuids[i];
    return kSuccess;
  }
  return kNotFound;
}

EXPORTED int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void* instance, void** device) {
  if (instance < (void*)&kUuids[2]) return kUnknown;
  *device = (void*)&kUuids[0];
  return kSuccess;
}

struct Event {
  void* device;
  unsigned long long type;
  unsigned long long data;
  unsigned gpu_instance;
  unsigned compute_instance;
};
static int is_heard[2];

EXPORTED int nvmlDeviceGetGpuInstanceId(void* instance, unsigned* id) {
  if (instance < (void*)&kUuids[2]) return kUnknown;
  *id = (unsigned)((const char* const*)instance - &kUuids[2]);
  return kSuccess;
}

EXPORTED int nvmlEventSetCreate(void** set) {
  *set = &is_heard;
  return kSuccess;
}

EXPORTED int nvmlDeviceRegisterEvents(void* device, unsigned long long types, void* set) {
  if (types != (0x2 | 0x8) || set != &is_heard) return kUnknown;
  if (device != (void*)&kUuids[0] && device != (void*)&kUuids[1]) return kUnknown;
  is_heard[device == (void*)&kUuids[1]] = 1;
  return kSuccess;
}

EXPORTED int nvmlEventSetWait_v2(void* set, struct Event* event, unsigned milliseconds) {
  static char told[16];
  const char* fault = getenv("HVD_FAKE_NVML_FAULT");
  const char* instance = fault == NULL ? NULL : strchr(fault, '@');
  const int which = instance == NULL;
  if (set != &is_heard) return kUnknown;
  if (fault == NULL || !is_heard[which] || strcmp(told, fault) == 0) {
    sleep(milliseconds / 1000);
    return kTimeout;
  }
  snprintf(told, sizeof told, "%s", fault);
  memset(event, 0, sizeof *event);
  event->device = (void*)&kUuids[which];
  event->type = strcmp(fault, "ecc") == 0 ? 0x2 : 0x8;
  event->data = strtoull(fault, NULL, 10);
  event->gpu_instance = instance == NULL ? 0xFFFFFFFF : (unsigned)atoi(instance + 1);
  return kSuccess;
}

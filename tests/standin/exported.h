// For the functions of stand-in drivers: they are what the library shows.
#pragma once

#define ASHLAR_STANDIN extern "C" __attribute__((visibility("default")))

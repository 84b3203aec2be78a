// The library's environment variables, read here and nowhere else; docs/environment.md lists them.
#pragma once
#include <optional>
#include <string>

namespace shoal::env {

enum class Check { off, on, bits };

std::optional<std::string> get(const char* name);  // unset and empty are the same
Check check();                              // SHOAL_CHECK: 0 | 1 | bits; throws ConfigError on anything else
std::optional<double> timeout();            // SHOAL_TIMEOUT, seconds, > 0
std::optional<std::string> cpu_isa();       // SHOAL_CPU_ISA: generic | avx2 | avx512
std::string log_level();                    // SHOAL_LOG: error | warn | info | debug; default warn
std::optional<std::string> comm_backend();  // SHOAL_COMM: self | local | mpi
std::optional<std::string> token();         // SHOAL_TOKEN: the job's secret
std::optional<std::string> token_file();    // SHOAL_TOKEN_FILE: a file that holds it
std::optional<std::string> store();         // SHOAL_STORE: where ranks meet; set by `shoal run`
std::optional<std::string> comm_tuning();   // SHOAL_COMM_TUNING: a file
std::optional<bool> shared_buffers();       // SHOAL_SHARED_BUFFERS: 0 | 1

}  // namespace shoal::env

#!/usr/bin/env python3
"""Every rule of the lint finds a violation planted for it, and nothing in a tree that keeps the rules."""
import pathlib
import platform
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import format_check
import instructions
from lint import violations

CLEAN = {
    "include/shoal/core/a.hpp": "#pragma once\n#include <vector>\n",
    "include/shoal/ops/b.hpp": '#pragma once\n#include "shoal/core/a.hpp"\n',
    "include/shoal/nn/c.hpp": '#pragma once\n#include "shoal/ops/b.hpp"\n',
    "include/shoal/parallel/data/d.hpp": '#pragma once\n#include "shoal/nn/c.hpp"\n',
    "include/shoal/parallel/tensor/e.hpp": "#pragma once\n",
    "include/shoal/data/f.hpp": "#pragma once\n",
    "include/shoal/checkpoint/g.hpp": "#pragma once\n",
    "src/core/env.cpp": '#include "shoal/core/a.hpp"\nauto x = get("SHOAL_ONE");\nauto y = std::getenv(name);\n',
    "src/comm/launch.cpp": '#include "shoal/core/a.hpp"\nauto r = std::getenv("RANK");\n',
    "src/comm/backends/mpi/m.cpp": "#include <mpi.h>\n",
    "src/ops/private.hpp": "#pragma once\n",
    "src/ops/b.cpp": '#include <fmt/format.h>\n#include "kernels/cpu/b.hpp"\n#include "ops/private.hpp"\n',
    "kernels/cpu/b.hpp": "#pragma once\n",
    "kernels/cpu/b.cpp": "#include <math.h>\n#include <cstdint>\n",
    "src/cli/main.cpp": '#include <CLI/CLI.hpp>\n#include "shoal/nn/c.hpp"\nint main() { std::exit(0); }\n',
    "python/bindings/bind_core.cpp": '#include <pybind11/pybind11.h>\n#include "shoal/core/a.hpp"\n',
    "docs/environment.md": "| variable | meaning |\n|---|---|\n| `SHOAL_ONE` | one |\n",
    "scripts/go": "#!/bin/sh\n# reads nothing\n",
    "CMakeLists.txt": "# no -ffast-math here\n",
}


class Planted(unittest.TestCase):
    def lint(self, changes=None):
        with tempfile.TemporaryDirectory() as root:
            for path, text in {**CLEAN, **(changes or {})}.items():
                file = pathlib.Path(root, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            return violations(root)[1]

    def expect(self, rule, path, text, line=1, at=None):
        found = self.lint({path: text})
        self.assertEqual([(v.rule, v.path, v.line) for v in found], [(rule, at or path, line)], [str(v) for v in found])

    def test_clean_tree(self):
        self.assertEqual(self.lint(), [])

    def test_layer_includes_upwards(self):
        self.expect("layers", "src/core/up.cpp", '#include "shoal/nn/c.hpp"\n')
        self.expect("layers", "src/core/up.cpp", "\n  # include <shoal/ops/b.hpp>\n", line=2)
        self.expect("layers", "src/core/up.cpp", '#include "ops/private.hpp"\n')
        self.expect("layers", "src/core/up.cpp", '#include "../ops/private.hpp"\n')

    def test_layers_in_one_brace(self):
        self.expect("layers", "src/data/f.cpp", '#include "shoal/checkpoint/g.hpp"\n')
        self.expect("layers", "src/checkpoint/g.cpp", '#include "shoal/data/f.hpp"\n')

    def test_folders_of_parallel(self):
        self.expect("layers", "src/parallel/tensor/e.cpp", '#include "shoal/parallel/data/d.hpp"\n')
        self.expect("layers", "src/parallel/data/d.cpp", '#include "shoal/parallel/tensor/e.hpp"\n')

    def test_kernels_are_for_ops(self):
        self.expect("layers", "src/nn/c.cpp", '#include "kernels/cpu/b.hpp"\n')
        self.expect("layers", "kernels/cpu/b.cpp", '#include "shoal/ops/b.hpp"\n')

    def test_missing_header_and_tests(self):
        self.expect("layers", "src/nn/c.cpp", '#include "shoal/nn/none.hpp"\n')
        found = self.lint({"tests/support/s.hpp": "", "src/nn/c.cpp": '#include "support/s.hpp"\n'})
        self.assertEqual([v.rule for v in found], ["layers"])

    def test_a_comment_is_no_include(self):
        self.assertEqual(self.lint({"src/core/up.cpp": '/*\n#include "shoal/nn/c.hpp"\n*/ // #include <mpi.h>\n'}), [])

    def test_a_string_hides_nothing(self):
        self.expect("layers", "src/core/up.cpp", 'auto s = "/*";\n#include "shoal/nn/c.hpp"\n', line=2)

    def test_public_headers(self):
        for include in ("<fmt/format.h>", "<mpi_stub.h>", '"ops/private.hpp"', "<nlohmann/json.hpp>"):
            self.expect("public-headers", "include/shoal/ops/p.hpp", f"#pragma once\n#include {include}\n", line=2)

    def test_foreign_headers(self):
        self.expect("foreign-headers", "src/comm/world.cpp", "#include <mpi.h>\n")
        self.expect("foreign-headers", "tests/dist/x_test.cpp", "#include <mpi.h>\n")
        self.expect("foreign-headers", "src/core/x.cpp", "#include <nccl.h>\n")
        self.expect("foreign-headers", "src/core/x.cpp", "#include <cuda_runtime.h>\n")
        self.expect("foreign-headers", "src/ops/x.cpp", '#include "cublasLt.h"\n')
        self.expect("foreign-headers", "src/train/x.cpp", "#include <CLI/CLI.hpp>\n")
        self.assertEqual(self.lint({"src/core/cuda/x.cpp": "#include <cuda_runtime.h>\n",
                                    "src/comm/backends/nccl/x.cpp": "#include <nccl.h>\n"}), [])

    def test_kernel_headers(self):
        self.expect("kernel-headers", "kernels/cpu/b.cpp", "#include <vector>\n")

    def test_length(self):
        self.assertEqual(self.lint({"src/core/long.cpp": "\n" * 500}), [])
        self.expect("length", "src/core/long.cpp", "\n" * 501, line=501)
        self.expect("length", "scripts/long", "\n" * 501, line=501)

    def test_environment(self):
        self.expect("environment", "src/train/x.cpp", 'auto v = getenv("RANK");\n')
        self.expect("environment", "include/shoal/core/x.hpp", 'auto v = std::getenv("SHOAL_ONE");\n')
        self.expect("environment", "src/comm/x.cpp", 'auto v = std::getenv("SHOAL_ONE");\n')
        self.expect("environment", "src/train/x.cpp", 'auto v = env::get("SHOAL_ONE");\n')
        self.expect("environment", "src/core/env.cpp", 'auto x = get("SHOAL_ONE");\nauto v = get("OTHER");\n', line=2)

    def test_documented(self):
        self.expect("documented", "src/core/env.cpp", 'auto x = get("SHOAL_ONE");\nauto v = get("SHOAL_TWO");\n', line=2)
        self.expect("documented", "src/core/env.cpp", "\n", line=3, at="docs/environment.md")
        self.expect("documented", "scripts/go", 'echo "${SHOAL_TWO:-1}"\n')
        self.expect("documented", "python/shoal/x.py", 'os.environ.get("SHOAL_TWO")\n')

    def test_no_exit(self):
        self.expect("no-exit", "src/comm/x.cpp", "void f() { std::abort(); }\n")
        self.expect("no-exit", "src/comm/x.cpp", "void f() { exit(1); }\n")
        self.expect("no-print", "src/train/x.cpp", 'void f() { std::cout << "hello"; }\n')
        self.expect("no-print", "src/train/x.cpp", 'void f() { fmt::print("hello"); }\n')
        self.assertEqual(self.lint({"src/comm/x.cpp": "comm->abort(why); snprintf(b, 3, s); on_exit(f);\n"}), [])

    def test_flags(self):
        self.expect("flags", "cmake/x.cmake", "add_compile_options(-ffast-math)\n")
        self.expect("flags", "CMakePresets.json", '{"x": "-march=native"}\n')

    def test_unfinished(self):
        self.expect("unfinished", "src/core/x.cpp", "// TO" + "DO later\n")

    def test_constructors(self):
        guard = ', py::call_guard<py::gil_scoped_release>()'
        path, method = "python/bindings/x.cpp", f'.def("f", &X::f{guard});\n'
        init = ".def(py::init([](int n) {{\n  return make(n);\n}}), py::arg(\"n\"){})\n"
        self.expect("constructors", path, init.format(guard) + method)
        self.assertEqual(self.lint({path: init.format("") + method}), [])

    def test_format(self):
        tool = format_check.find_tool()
        if tool is None:
            self.skipTest("clang-format is not installed")
        style = (pathlib.Path(__file__).resolve().parents[2] / ".clang-format").read_text()
        with tempfile.TemporaryDirectory() as root:
            pathlib.Path(root, ".clang-format").write_text(style)
            good, bad = pathlib.Path(root, "good.cpp"), pathlib.Path(root, "bad.cpp")
            good.write_text("int f() { return 1; }\n")
            bad.write_text("int   f( ){return 1 ;}\n")
            self.assertEqual(format_check.badly_formatted(tool, [good, bad]), [bad])

    def assembled(self, text):
        if platform.machine() != "x86_64" or not instructions.have_tools():
            self.skipTest("needs an x86-64 machine with GNU binutils")
        with tempfile.TemporaryDirectory() as root:
            obj = pathlib.Path(root, "a.o")
            subprocess.run(["as", "-o", str(obj)], input=text, text=True, check=True)
            return {isa: instructions.violations(isa, obj) for isa in instructions.ACCEPTED}

    def test_instructions(self):
        base = "f:\n addps %xmm1, %xmm0\n jne f\n call g\n nopw 0(%rax,%rax)\n endbr64\n lea 4(%rip), %rax\n"
        for text, sets in {"": "generic avx2 avx512", "haddps %xmm0, %xmm1": "avx2 avx512", "vcvtph2ps %xmm0, %ymm0": "avx2 avx512",
                           "shlx %eax, %ebx, %ecx": "", "vaddps %zmm0, %zmm1, %zmm2": "avx512",
                           "vaddps %ymm16, %ymm1, %ymm2": "avx512", "vpconflictd %zmm0, %zmm1": "",
                           "vpdpbusd %zmm0, %zmm1, %zmm2": ""}.items():
            found = self.assembled(f"{base} {text}\n")
            self.assertEqual([isa for isa in found if not found[isa]], sets.split(), found)

    def test_weak_functions(self):
        found = self.assembled(".weak f\nf: ret\n")
        self.assertEqual(found["avx2"], ["weak function f"])
        self.assertEqual(self.assembled("")["avx2"], ["holds no instructions"])


if __name__ == "__main__":
    unittest.main()

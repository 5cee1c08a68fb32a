# SPDX-License-Identifier: Apache-2.0
# BPF programs. Only clang makes code for the kernel's BPF machine that libbpf accepts, whatever compiles the rest.
find_program(BPF_CLANG NAMES clang REQUIRED)
include(TestBigEndian)
test_big_endian(BPF_IS_BIG_ENDIAN)

# add_bpf_object(NAME): NAME.bpf.c becomes NAME.bpf.o in the binary directory. -g is for the types of the maps (BTF).
# The kernel's headers include some of one architecture. -mcpu=v2 saves whole registers on the stack; until Linux 6.8
# the verifier lets no process without CAP_PERFMON save half of one twice, as v3 does.
function(add_bpf_object name)
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/${name}.bpf.c)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.bpf.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${BPF_CLANG} -target $<IF:$<BOOL:${BPF_IS_BIG_ENDIAN}>,bpfeb,bpfel> -mcpu=v2 -O2 -g -Wall -Wextra
            $<$<BOOL:${IBVCAP_WERROR}>:-Werror> -ffile-prefix-map=${PROJECT_SOURCE_DIR}=. -fdebug-compilation-dir=.
            -idirafter /usr/include/${CMAKE_LIBRARY_ARCHITECTURE} -MD -MF ${object}.d -MT ${object}
            -c ${source} -o ${object}
    DEPENDS ${source} DEPFILE ${object}.d VERBATIM)
endfunction()

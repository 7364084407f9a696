# SPDX-License-Identifier: Apache-2.0
# Copyright The librmq Authors
#
# Builds both libraries, the command and the examples; `make help` lists the targets. Works as it is (libraries are found with
# pkg-config) or after ./configure, which only writes config.mak. A private config.mak.local is read last. CFLAGS, CPPFLAGS,
# LDFLAGS and LDLIBS given on the command line are appended to ours. V=1 shows the commands, WERROR=1 makes warnings errors.
# Each flavour (release debug asan tsan cov fuzz) has its own tree build/<flavour>/.

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:
MAKEFLAGS += --no-builtin-rules

VERSION := $(shell sed -n 's/^.define RMQ_VERSION_STRING "\(.*\)"/\1/p' include/rmq/version.h)
SOVERSION := $(firstword $(subst ., ,$(VERSION)))
BUILD ?= build
FLAVOUR ?= release
CONFIG ?= config.mak
ifeq ($(origin CC),default)
CC = cc
endif

-include $(CONFIG)
-include config.mak.local

B := $(BUILD)/$(FLAVOUR)
prefix ?= /usr/local
exec_prefix ?= $(prefix)
bindir ?= $(exec_prefix)/bin
libdir ?= $(exec_prefix)/lib
includedir ?= $(prefix)/include
docdir ?= $(prefix)/share/doc/librmq
PKG_CONFIG ?= pkg-config
INSTALL ?= install
JOBS ?= 2
# Test programs at a time: most of them wait for something most of the time, with sanitizers less.
TEST_JOBS ?= $(shell expr $$(nproc 2> /dev/null || echo 2) \* $(if $(filter release,$(FLAVOUR)),3,2))
TEST_TIMEOUT ?= 120
Q = $(if $(V),,@)
say = $(if $(V),,@printf '  %-8s %s\n' "$(1)" "$(2)")

# ---- what is built -------------------------------------------------------------------------------------------------

LAYERS := base wire net store namesrv broker client tools
$(foreach l,$(LAYERS),$(eval SRC_$(l) := $(sort $(wildcard src/$(l)/*.c))))
objects = $(foreach l,$(1),$(patsubst src/%.c,$(B)/obj/%.o,$(SRC_$(l))))

IN_CLIENT := base wire net client
IN_BROKER := base wire net store namesrv broker
NEEDS_base := base
NEEDS_wire := base wire
NEEDS_net := base wire net
NEEDS_client := base wire net client
NEEDS_store := base wire store
NEEDS_namesrv := base wire net namesrv
NEEDS_broker := base wire net store namesrv broker
NEEDS_all := base wire net store namesrv broker client

PACKAGES := libevent_core libevent_extra libevent_pthreads libcrypto libcjson liblz4 libzstd libdeflate
TEST_PACKAGES := check zlib
SO_CLIENT := $(B)/librmq.so.$(VERSION)
SO_BROKER := $(B)/librmq-broker.so.$(VERSION)
SHARED := $(SO_CLIENT) $(SO_BROKER)
ARCHIVES := $(B)/librmq.a $(B)/librmq-broker.a
COMMAND := $(B)/rmq
EXAMPLES := $(patsubst examples/%.c,$(B)/examples/%,$(sort $(wildcard examples/*.c)))
HEADERS := $(sort $(wildcard include/rmq/*.h))

# ---- flags ---------------------------------------------------------------------------------------------------------

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wcast-qual -Wundef -Wvla -Wformat=2 -Wstrict-prototypes \
            -Wmissing-prototypes
TEST_WARNINGS := -Wall -Wextra -Wno-unused-parameter -Wno-missing-field-initializers
IS_CLANG := $(shell $(CC) --version 2> /dev/null | grep -ci clang)
ifneq ($(IS_CLANG),0)
WARNINGS += -Wthread-safety
TEST_WARNINGS += -Wno-gnu-zero-variadic-macro-arguments
endif
ifdef WERROR
WARNINGS += -Werror
TEST_WARNINGS += -Werror
endif

OPT_release := -O2 -g -DNDEBUG -fno-plt
OPT_debug := -O0 -g3 -DRQ_DEBUG
OPT_asan := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all -DRQ_DEBUG
OPT_tsan := -O1 -g -fno-omit-frame-pointer -fsanitize=thread -DRQ_DEBUG
OPT_cov := -O0 -g --coverage -DRQ_DEBUG
OPT_fuzz := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -DRQ_DEBUG
ifndef OPT_$(FLAVOUR)
$(error there is no FLAVOUR=$(FLAVOUR): release debug asan tsan cov fuzz)
endif
LINK_asan := -fsanitize=address,undefined
LINK_tsan := -fsanitize=thread
LINK_cov := --coverage
LINK_fuzz := -fsanitize=fuzzer,address,undefined
comma := ,
# Sanitizers leave symbols of their run-time open in shared libraries, so only the plain flavours ask for none.
DEFS := $(if $(filter release debug,$(FLAVOUR)),-Wl$(comma)-z$(comma)defs)


BASE_CFLAGS = -std=c11 -D_GNU_SOURCE -pthread -fPIC -fvisibility=hidden -fstack-protector-strong $(OPT_$(FLAVOUR))
LIB_CFLAGS = $(BASE_CFLAGS) $(WARNINGS) -Iinclude -Isrc $(PKG_CFLAGS) $(CPPFLAGS) $(CFLAGS)
TEST_CFLAGS = $(BASE_CFLAGS) $(TEST_WARNINGS) -Iinclude -Itests $(TEST_PKG_CFLAGS) $(CPPFLAGS) $(CFLAGS)
BASE_LDFLAGS = -pthread -Wl,--as-needed -Wl,-z,relro,-z,now $(LINK_$(FLAVOUR)) $(LDFLAGS)
LINK_SHARED = -L$(B) -Wl,-rpath,'$$ORIGIN/..' -lrmq -lrmq-broker

# Libraries are looked for once: these files are made by scripts/deps, which for the goals that promise it (demo, check, deps)
# installs what is missing first. Those of the tests alone need not be there for other goals. After ./configure there is nothing to
# look for.
NO_LIBRARIES := clean help format dist uninstall deps check-layers
NO_TESTS := $(NO_LIBRARIES) all libs command examples demo install docs check-docs check-symbols check-headers check-abi
GOALS := $(or $(MAKECMDGOALS),all)
LIBRARIES := $(BUILD)/packages.mk $(if $(filter-out $(NO_TESTS),$(GOALS)),$(BUILD)/test-packages.mk)
ifneq ($(filter-out $(NO_LIBRARIES),$(GOALS)),)
ifndef PKG_LIBS
include $(LIBRARIES)
endif
endif

LOOK = PKG_CONFIG="$(PKG_CONFIG)" scripts/deps $(if $(filter demo check,$(GOALS)),--install,--look) --write $@
$(BUILD)/packages.mk: Makefile scripts/deps
	$(Q)mkdir -p $(@D)
	$(Q)$(LOOK) PKG "$(PACKAGES)"
# After the other one: two installations at a time would lock each other out.
$(BUILD)/test-packages.mk: Makefile scripts/deps | $(BUILD)/packages.mk
	$(Q)mkdir -p $(@D)
	$(Q)$(LOOK) TEST_PKG "$(TEST_PACKAGES)"

# ---- libraries and command -----------------------------------------------------------------------------------------

.PHONY: all libs command examples
all: libs command examples
libs: $(SHARED) $(ARCHIVES)
command: $(COMMAND)
examples: $(EXAMPLES)

# Rebuilds everything when compiler or flags change; touched only then.
FLAGS_NOW := $(CC)|$(LIB_CFLAGS)|$(BASE_LDFLAGS)
$(B)/flags: force
	$(Q)mkdir -p $(@D)
	$(Q)printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' | cmp -s - $@ || printf '%s\n' '$(subst ','\'',$(FLAGS_NOW))' > $@
.PHONY: force
force:

$(B)/obj/%.o: src/%.c $(B)/flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(LIB_CFLAGS) -MMD -MP -c -o $@ $<

# shared_library: output, layers, soname, version script
define shared_library
$(1): $(call objects,$(2)) $(4) $(B)/flags
	$$(call say,LD,$$@)
	$$(Q)$$(CC) -shared -o $$@.tmp -Wl,-soname,$(3).$(SOVERSION) -Wl,--version-script=$(4) $$(DEFS) \
	    $(call objects,$(2)) $$(BASE_LDFLAGS) $$(PKG_LIBS) $$(LDLIBS) && mv $$@.tmp $$@
	$$(Q)ln -sf $(3).$(VERSION) $(B)/$(3).$(SOVERSION)
	$$(Q)ln -sf $(3).$(SOVERSION) $(B)/$(3)
endef
$(eval $(call shared_library,$(SO_CLIENT),$(IN_CLIENT),librmq.so,src/librmq.map))
$(eval $(call shared_library,$(SO_BROKER),$(IN_BROKER),librmq-broker.so,src/librmq-broker.map))

$(B)/librmq.a: $(call objects,$(IN_CLIENT))
$(B)/librmq-broker.a: $(call objects,$(IN_BROKER))
$(ARCHIVES):
	$(call say,AR,$@)
	$(Q)rm -f $@.tmp && $(or $(AR),ar) rcs $@.tmp $^ && mv $@.tmp $@

$(COMMAND): $(call objects,tools) $(ARCHIVES)
	$(call say,LD,$@)
	$(Q)$(CC) -o $@ $(call objects,tools) $(ARCHIVES) $(filter-out -fsanitize=fuzzer%,$(BASE_LDFLAGS)) $(PKG_LIBS) $(LDLIBS)
	$(if $(filter release,$(FLAVOUR)),$(Q)ln -f $@ $(BUILD)/rmq)

$(B)/examples/%: examples/%.c $(SHARED) $(B)/flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(BASE_CFLAGS) $(WARNINGS) -Iinclude $(CPPFLAGS) $(CFLAGS) -MMD -MP -o $@ $< $(BASE_LDFLAGS) $(LINK_SHARED) $(LDLIBS)

# ---- tests ---------------------------------------------------------------------------------------------------------

TEST_LAYERS := $(foreach l,$(filter-out tools,$(LAYERS)),$(if $(wildcard tests/unit/$(l)/*_test.c),$(l)))
CHECK_BINARIES := $(TEST_LAYERS:%=$(B)/test/unit/%/run)
FUZZ_SOURCES := $(sort $(wildcard tests/fuzz/*.c))
FUZZ_NAMES := $(notdir $(FUZZ_SOURCES:.c=))
REPLAYS := $(FUZZ_NAMES:%=$(B)/test/replay/%)
SOAK := $(patsubst tests/%.c,$(B)/test/%,$(sort $(wildcard tests/soak/*_test.c)))
E2E_ALL := $(patsubst tests/%.c,$(B)/test/%,$(sort $(wildcard tests/e2e/*_test.c)))
# Those that take longest begin first.
CHECK_LONG := $(patsubst %,$(B)/test/unit/%/run,store broker net)
E2E_LONG := $(patsubst %,$(B)/test/e2e/%_test,consumer_outage producer_outage consumer_retry consumer_flow lite_pull producer_failure \
    consumer_notice consumer_ordered)
E2E := $(filter $(E2E_LONG),$(E2E_ALL)) $(filter-out $(E2E_LONG),$(E2E_ALL))
LIB_TEST_OBJECTS := $(patsubst tests/%.c,$(B)/test/%.o,$(filter-out tests/lib/main_%,$(wildcard tests/lib/*.c)))

# check_binary: folder below tests/, layers that it links. Its main calls the suite of each *_test.c in the folder.
define check_binary
CASES_$(subst /,_,$(1)) := $$(sort $$(wildcard tests/$(1)/*_test.c))
$(B)/test/$(1)/main.c: $$(CASES_$(subst /,_,$(1))) scripts/gen-test-main
	$$(Q)mkdir -p $$(@D)
	$$(Q)scripts/gen-test-main $$(filter %.c,$$^) > $$@
$(B)/test/$(1)/run: $(B)/test/$(1)/main.c $$(patsubst tests/%.c,$(B)/test/%.o,$$(wildcard tests/$(1)/*.c)) \
                   $(B)/test/lib/usage.o $(B)/test/lib/port.o $(call objects,$(2))
	$$(call say,LD,$$@)
	$$(Q)$$(CC) $$(TEST_CFLAGS) -o $$@ $$^ $$(BASE_LDFLAGS) $$(PKG_LIBS) $$(TEST_PKG_LIBS) $$(LDLIBS)
endef
$(foreach l,$(TEST_LAYERS),$(eval $(call check_binary,unit/$(l),$(NEEDS_$(l)))))
ifneq ($(wildcard tests/oom/*_test.c),)
$(eval $(call check_binary,oom,$(NEEDS_all)))
CHECK_BINARIES += $(B)/test/oom/run
endif
ifneq ($(wildcard tests/vectors/*_test.c),)
$(eval $(call check_binary,vectors,$(NEEDS_all)))
CHECK_BINARIES += $(B)/test/vectors/run
endif

# End-to-end tests see the public headers only; unit tests may see src/ too.
$(B)/test/e2e/%.o $(B)/test/soak/%.o $(B)/test/members/%.o $(B)/test/lib/%.o: INSIDE =
$(B)/test/%.o: INSIDE = -Isrc $(PKG_CFLAGS)
$(B)/test/e2e/%.o: tests/e2e/%.c $(B)/flags
	$(compile_test)
$(B)/test/%.o: tests/%.c $(B)/flags
	$(compile_test)
define compile_test
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_CFLAGS) $(INSIDE) -MMD -MP -c -o $@ $<
endef

# Libraries that tests put before libc.
PRELOADS := $(patsubst tests/lib/preload/%.c,$(B)/test/preload/%.so,$(wildcard tests/lib/preload/*.c))
$(B)/test/preload/%.so: tests/lib/preload/%.c tests/lib/preload.h $(B)/flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -std=c11 -O2 -fPIC -shared $(TEST_WARNINGS) -Itests -o $@ $< -ldl

E2E_SHARED := $(patsubst tests/%.c,$(B)/test/%.o,$(filter-out %_test.c,$(wildcard tests/e2e/*.c)))
define link_e2e
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -o $@ $(filter %.o,$^) -L$(B) -Wl,-rpath,'$$ORIGIN/../..' -lrmq -lrmq-broker $(BASE_LDFLAGS) $(TEST_PKG_LIBS) $(LDLIBS)
endef
$(B)/test/e2e/%: $(B)/test/e2e/%.o $(E2E_SHARED) $(LIB_TEST_OBJECTS) $(SHARED) $(PRELOADS)
	$(link_e2e)
$(B)/test/soak/%: $(B)/test/soak/%.o $(LIB_TEST_OBJECTS) $(SHARED)
	$(link_e2e)

# A member of a consumer group as a process of its own, for the interop suite.
MEMBER := $(B)/test/members/run
$(MEMBER): $(patsubst tests/%.c,$(B)/test/%.o,$(wildcard tests/members/*.c)) $(LIB_TEST_OBJECTS) $(SHARED)
	$(link_e2e)

# Run the command.
$(addprefix $(B)/test/e2e/,store_command_test command_test command_admin_test request_test): | $(COMMAND)

$(B)/test/replay/%: $(B)/test/fuzz/%.o $(B)/test/lib/main_replay.o $(call objects,$(NEEDS_all))
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -o $@ $^ $(BASE_LDFLAGS) $(PKG_LIBS) $(LDLIBS)

# Kills and power cuts in a loop: make crash N=500 [SEED=1] [T="sync async buffers power"]
CRASH := $(B)/test/crash/run
N ?= 40
$(CRASH): $(patsubst tests/%.c,$(B)/test/%.o,$(wildcard tests/crash/*.c)) $(call objects,$(NEEDS_store))
	$(call say,LD,$@)
	$(Q)$(CC) -o $@ $^ $(BASE_LDFLAGS) $(PKG_LIBS) $(LDLIBS)
.PHONY: crash
crash: $(CRASH)
	$(Q)$(CRASH) -n $(N) $(if $(SEED),-s $(SEED)) $(T)

.PHONY: check check-asan check-tsan valgrind cov unit e2e soak soak-here $(TEST_LAYERS:%=unit-%)
RUN_TESTS = FLAVOUR=$(FLAVOUR) CC="$(CC)" B=$(B) scripts/run-tests -j $(TEST_JOBS) -t $(TEST_TIMEOUT) -o $(B)/results/$@

check: all $(CHECK_BINARIES) $(REPLAYS) $(E2E) $(CRASH)
	$(Q)$(RUN_TESTS) $(CHECK_LONG) $(E2E) $(filter-out $(CHECK_LONG),$(CHECK_BINARIES)) $(foreach f,$(FUZZ_NAMES),"$(B)/test/replay/$(f) tests/fuzz/seeds/$(f) \
	    tests/fuzz/regressions/$(f)") $(if $(EXAMPLES),scripts/check-examples) scripts/check-snippets scripts/check-null scripts/check-abi "$(CRASH) -n 5"
unit: $(CHECK_BINARIES)
	$(Q)$(RUN_TESTS) $(CHECK_BINARIES)
$(TEST_LAYERS:%=unit-%): unit-%: $(B)/test/unit/%/run
	$(Q)$(RUN_TESTS) $<
e2e: $(E2E)
	$(Q)$(RUN_TESTS) $(E2E)
# Half an hour: outages of minutes, hundreds of rounds, a gigabyte of backlog.
soak: $(SOAK)
	$(Q)$(MAKE) --no-print-directory TEST_TIMEOUT=2400 soak-here
soak-here: $(SOAK) $(B)/test/e2e/consumer_broadcast_test
	$(Q)TL_ROUNDS=500 $(RUN_TESTS) $(SOAK) "$(B)/test/e2e/consumer_broadcast_test a_kill_leaves_a_whole_file"

check-asan:
	$(Q)$(MAKE) --no-print-directory FLAVOUR=asan TEST_TIMEOUT=300 check
check-tsan:
	$(Q)$(MAKE) --no-print-directory FLAVOUR=tsan TEST_TIMEOUT=300 check
valgrind:
	$(Q)$(MAKE) --no-print-directory FLAVOUR=debug TEST_TIMEOUT=900 valgrind-here
.PHONY: valgrind-here
valgrind-here: all $(CHECK_BINARIES) $(E2E)
	$(Q)CK_FORK=no WRAP="valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite" \
	    $(RUN_TESTS) $(CHECK_BINARIES) $(E2E)
cov:
	$(Q)$(MAKE) --no-print-directory FLAVOUR=cov check || true
	$(Q)scripts/coverage $(BUILD)/cov

# ---- fuzzing, speed, the real thing --------------------------------------------------------------------------------

.PHONY: fuzz fuzz-here bench benches interop interop-long demo
T ?= $(FUZZ)
TIME ?= 60
fuzz:
	$(Q)$(MAKE) --no-print-directory FLAVOUR=fuzz CC=clang T="$(T)" TIME=$(TIME) fuzz-here
FUZZ_CHOSEN = $(if $(filter all,$(T)),$(FUZZ_NAMES),$(patsubst %,%_fuzz,$(T:%_fuzz=%)))
fuzz-here: $(FUZZ_CHOSEN:%=$(B)/fuzz/%)
	$(Q)[ -n "$(FUZZ_CHOSEN)" ] || { echo "choose one: make fuzz T=... of: $(FUZZ_NAMES:%_fuzz=%), or FUZZ=all" >&2; exit 2; }
	$(Q)for t in $(FUZZ_CHOSEN); do mkdir -p $(B)/corpus/$$t tests/fuzz/regressions/$$t && \
	    $(B)/fuzz/$$t -max_total_time=$(TIME) -rss_limit_mb=512 -artifact_prefix=tests/fuzz/regressions/$$t/ \
	    $(B)/corpus/$$t $$(ls -d tests/fuzz/seeds/$$t tests/fuzz/regressions/$$t 2> /dev/null) || exit 1; done
$(BUILD)/fuzz/fuzz/%: $(BUILD)/fuzz/test/fuzz/%.o $(call objects,$(NEEDS_all))
	$(call say,LD,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) -o $@ $^ $(BASE_LDFLAGS) $(PKG_LIBS) $(LDLIBS)

BENCHES := $(patsubst tests/bench/%.c,$(B)/bench/%,$(sort $(wildcard tests/bench/*.c)))
benches: $(BENCHES)
bench: all benches
	$(Q)B=$(B) T=$(T) tests/bench/run.sh
$(B)/bench/%: tests/bench/%.c $(call objects,$(NEEDS_all)) $(B)/flags
	$(call say,CC,$<)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_CFLAGS) -Isrc $(PKG_CFLAGS) -o $@ $(filter %.c %.o,$^) $(BASE_LDFLAGS) $(PKG_LIBS) $(TEST_PKG_LIBS) $(LDLIBS)
interop: all $(E2E) $(MEMBER)
	$(Q)tests/interop/run.sh $(CASES)
# Ten times as many messages, and a mixed group for five minutes: a quarter of an hour.
interop-long: all $(E2E) $(MEMBER)
	$(Q)CASE_SECONDS=1200 tests/interop/run.sh $(or $(CASES),$$(tests/interop/run.sh --list | grep '^long_'))
demo: $(COMMAND)
	$(Q)$(COMMAND) demo

# ---- lint and documentation ----------------------------------------------------------------------------------------

.PHONY: lint check-layers check-symbols check-headers check-abi check-docs sizes cppcheck clang-tidy format docs deps help
# With the benchmarks, which nothing else builds.
lint: check-layers check-symbols check-headers check-docs sizes cppcheck clang-tidy benches
check-layers:
	$(Q)scripts/check-layers
check-symbols: $(call objects,$(LAYERS))
	$(Q)scripts/check-symbols $(B)/obj
check-headers:
	$(Q)CC="$(CC)" scripts/check-headers
check-abi: $(SHARED)
	$(Q)B=$(B) CC="$(CC)" scripts/check-abi
sizes:
	$(Q)scripts/sizes
# cppcheck follows pointers without the condition that guards them; the compilers and clang's analyzer see both.
cppcheck:
	$(Q)cppcheck -q --std=c11 --enable=warning,performance,portability --inline-suppr --error-exitcode=1 -j $(JOBS) \
	    --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches \
	    $(addprefix --suppress=,nullPointer nullPointerRedundantCheck nullPointerArithmeticRedundantCheck \
	    pointerOutOfBounds pointerOutOfBoundsCond) \
	    -Iinclude -Isrc src examples tests/lib
clang-tidy:
	$(Q)scripts/clang-tidy $(TIDY_SECONDS) -- -std=c11 -D_GNU_SOURCE -Iinclude -Isrc $(PKG_CFLAGS)
docs: $(COMMAND)
	$(Q)scripts/gen-docs $(COMMAND)
check-docs: $(COMMAND)
	$(Q)scripts/gen-docs --check $(COMMAND)
	$(Q)scripts/check-commands
format:
	$(Q)clang-format -i $(wildcard include/rmq/*.h src/*/*.[ch] examples/*.c tests/lib/*.[ch] tests/*/*.c tests/unit/*/*.c)
deps:
	$(Q)PKG_CONFIG="$(PKG_CONFIG)" scripts/deps --install "$(PACKAGES) $(TEST_PACKAGES)"
help:
	@sed -n 's/^#: //p' Makefile

# ---- install and release -------------------------------------------------------------------------------------------

.PHONY: install uninstall dist distcheck clean
PC := $(B)/rmq.pc $(B)/rmq-broker.pc
# A folder as pkg-config files name it, so that an installed tree can be moved: pkg-config --define-variable=prefix=ELSEWHERE.
below_prefix = $(patsubst $(prefix)/%,$${prefix}/%,$(patsubst $(prefix),$${prefix},$(1)))
$(B)/%.pc: pkgconfig/%.pc.in Makefile force
	$(Q)mkdir -p $(@D)
	$(Q)sed -e 's|@prefix@|$(prefix)|' -e 's|@exec_prefix@|$(call below_prefix,$(exec_prefix))|' \
	    -e 's|@libdir@|$(call below_prefix,$(libdir))|' -e 's|@includedir@|$(call below_prefix,$(includedir))|' \
	    -e 's|@VERSION@|$(VERSION)|' $< > $@

# Folders may have blanks in their names: only the shell, with quotes, puts them together. Of the folder of documents, which may be
# shared with others, only ours go.
DOCUMENTS := README.md ChangeLog LICENSE NOTICE
install: libs command $(PC)
	$(Q)$(INSTALL) -d "$(DESTDIR)$(bindir)" "$(DESTDIR)$(libdir)/pkgconfig" "$(DESTDIR)$(includedir)/rmq" "$(DESTDIR)$(docdir)"
	$(Q)$(INSTALL) -m 755 $(COMMAND) "$(DESTDIR)$(bindir)/rmq"
	$(Q)$(INSTALL) -m 644 $(ARCHIVES) "$(DESTDIR)$(libdir)"
	$(Q)$(INSTALL) -m 755 $(SHARED) "$(DESTDIR)$(libdir)"
	$(Q)for l in librmq librmq-broker; do ln -sf $$l.so.$(VERSION) "$(DESTDIR)$(libdir)/$$l.so.$(SOVERSION)" && \
	    ln -sf $$l.so.$(SOVERSION) "$(DESTDIR)$(libdir)/$$l.so" || exit 1; done
	$(Q)$(INSTALL) -m 644 $(PC) "$(DESTDIR)$(libdir)/pkgconfig"
	$(Q)$(INSTALL) -m 644 $(HEADERS) "$(DESTDIR)$(includedir)/rmq"
	$(Q)$(INSTALL) -m 644 $(DOCUMENTS) "$(DESTDIR)$(docdir)"
uninstall:
	$(Q)rm -f "$(DESTDIR)$(bindir)/rmq"
	$(Q)for f in $(notdir $(PC)); do rm -f "$(DESTDIR)$(libdir)/pkgconfig/$$f" || exit 1; done
	$(Q)for l in librmq librmq-broker; do for end in a so so.$(SOVERSION) so.$(VERSION); do \
	    rm -f "$(DESTDIR)$(libdir)/$$l.$$end" || exit 1; done; done
	$(Q)rm -rf "$(DESTDIR)$(includedir)/rmq"
	$(Q)for f in $(DOCUMENTS); do rm -f "$(DESTDIR)$(docdir)/$$f" || exit 1; done
	$(Q)rmdir "$(DESTDIR)$(docdir)" 2> /dev/null || true

DIST := librmq-$(VERSION)
dist:
	$(Q)mkdir -p $(BUILD) && rm -rf $(BUILD)/$(DIST)
	$(Q)git archive --format=tar --prefix=$(DIST)/ HEAD | tar -x -C $(BUILD)
	$(Q)cd $(BUILD)/$(DIST) && autoconf && rm -rf autom4te.cache
	$(Q)tar -czf $(BUILD)/$(DIST).tar.gz -C $(BUILD) $(DIST) && rm -rf $(BUILD)/$(DIST)
	@echo $(BUILD)/$(DIST).tar.gz
distcheck: dist
	$(Q)scripts/distcheck $(BUILD)/$(DIST).tar.gz $(BUILD)/distcheck
clean:
	$(Q)rm -rf $(foreach f,release debug asan tsan cov fuzz,$(BUILD)/$(f)) $(BUILD)/rmq $(BUILD)/packages.mk $(BUILD)/test-packages.mk

-include $(shell find $(B) -name '*.d' 2> /dev/null)

#: make               both libraries, the command build/rmq, the examples
#: make demo          installs what is missing, builds, and shows a message going through
#: make check         unit, out of memory, vectors, fuzz regressions, end to end, examples, ABI
#: make unit-wire     the unit tests of one layer (base wire net store namesrv broker client)
#: make check-asan    the same as check under address and undefined-behaviour sanitizers; also check-tsan
#: make valgrind      unit and end-to-end tests under memcheck
#: make cov           test coverage by file
#: make fuzz T=frame TIME=60     one fuzz target with clang; FUZZ=all for all
#: make crash N=500 [SEED=1]      kills and power cuts of the store in a loop
#: make soak          outages of minutes, hundreds of starts and stops, a gigabyte of backlog
#: make bench         speed, next to the peers that are found; T=store (flush client producer consumer broker) for one part
#: make interop       against the real Apache RocketMQ; CASES="name ..." for some
#: make interop-long  20,000 messages through faults of all kinds, a mixed group, end-to-end tests
#: make lint          layers, symbols, headers, docs, sizes, cppcheck, clang-tidy
#: make format        rewrites the sources with clang-format
#: make install DESTDIR= prefix=  also uninstall, dist, distcheck
#: make deps          installs the libraries that are missing, or prints the command
#: Variables: CC, CFLAGS, LDFLAGS, FLAVOUR=debug, BUILD=folder, V=1, WERROR=1

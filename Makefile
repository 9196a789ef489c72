# Two commands are enough: `make demo` shows the product, `make test` runs every check and nearly every test.
# Both install the Debian packages they need, if any is missing, and both can be run again and again.

.PHONY: help packages install guest install-guest demo test test-all bench setup setup-developer deny book fuzz python clean-scratch

help:
	@echo 'make demo    a VM boots from a cached disk, cold then warm, with real figures (about two minutes)'
	@echo 'make test    every check, and every test but nine long ones; what .ci/run runs'
	@echo 'make test-all   every test'
	@echo 'make install   the program, its systemd units, manual pages and completions, after cargo build --release --package hearth'
	@echo 'make guest   the agent for guests, without libraries; make install-guest puts it, its unit and rules in place'
	@echo 'make packages   Debian and RPM packages of both, in target/packages'
	@echo 'make bench   read hits over vhost-user and NBD beside raw flash and other servers (about 20 minutes, a quiet machine)'
	@echo 'make python  the Python package: build, tests, notebook, a sweep on Ray (needs Python 3.10)'
	@echo 'make setup   only install what the above need'
	@echo 'make book    the book as HTML in target/book (needs mdbook; make setup-developer installs it)'

# Where a distribution's package puts them; DESTDIR is a folder in front of all of them.
BINARY = target/release/hearth
LIBDIR = $(DESTDIR)/usr/lib
SHARE = $(DESTDIR)/usr/share
EXAMPLES = $(SHARE)/doc/hearth/examples
# Where Debian's zsh looks; others' look in site-functions.
ZSH = $(SHARE)/zsh/vendor-completions
install:
	install -D -m 0755 $(BINARY) $(DESTDIR)/usr/bin/hearth
	install -D -m 0644 -t $(LIBDIR)/systemd/system packaging/hearth.service packaging/hearth.socket packaging/hearth-monitor.service
	install -D -m 0644 packaging/hearth.sysusers $(LIBDIR)/sysusers.d/hearth.conf
	install -D -m 0644 packaging/hearth.tmpfiles $(LIBDIR)/tmpfiles.d/hearth.conf
	install -D -m 0644 -t $(EXAMPLES) packaging/storage.conf packaging/hearth-storage.rules packaging/hearth-health.service packaging/hearth-health.timer
	install -D -m 0644 packaging/reference.toml $(EXAMPLES)/reference.toml
	install -D -m 0644 packaging/hearth.schema.json $(SHARE)/hearth/hearth.schema.json
	install -d -m 0750 $(DESTDIR)/etc/hearth/conf.d
	install -D -m 0755 packaging/libvirt/qemu $(LIBDIR)/hearth/libvirt-qemu
	install -D -m 0644 -t $(SHARE)/hearth/proxmox packaging/proxmox/HearthPlugin.pm packaging/proxmox/hearth.conf
	install -D -m 0755 packaging/steps $(LIBDIR)/hearth/steps
	[ -e $(DESTDIR)/etc/hearth/hearth.toml ] || install -D -m 0640 packaging/hearth.toml $(DESTDIR)/etc/hearth/hearth.toml
	install -D -m 0644 -t $(SHARE)/hearth/prometheus packaging/prometheus/hearth.rules.yml
	install -D -m 0644 -t $(SHARE)/hearth/grafana packaging/grafana/*.json
	install -d -m 0755 $(SHARE)/bash-completion/completions $(SHARE)/fish/vendor_completions.d $(ZSH)
	umask 022 && $(BINARY) man --dir $(SHARE)/man
	umask 022 && $(BINARY) completions bash > $(SHARE)/bash-completion/completions/hearth
	umask 022 && $(BINARY) completions fish > $(SHARE)/fish/vendor_completions.d/hearth.fish
	umask 022 && $(BINARY) completions zsh > $(ZSH)/_hearth

# The agent: for guests of any distribution, so without libraries.
HOST = $(shell rustc -vV | sed -n 's/^host: //p')
AGENT = target/guest/$(HOST)/release/hearth-guest
guest:
	RUSTFLAGS='-C target-feature=+crt-static' cargo build --locked --release --package hearth-guest \
	    --target $(HOST) --target-dir target/guest

install-guest:
	install -D -m 0755 $(AGENT) $(DESTDIR)/usr/bin/hearth-guest
	install -D -m 0644 -t $(LIBDIR)/systemd/system packaging/hearth-guest.service
	install -D -m 0644 packaging/hearth-guest.sysusers $(LIBDIR)/sysusers.d/hearth-guest.conf
	install -D -m 0644 packaging/hearth-guest.rules $(LIBDIR)/udev/rules.d/60-hearth-guest.rules
	install -D -m 0644 packaging/hearth-guest-sockets.conf $(SHARE)/hearth-guest/sockets.conf
	install -D -m 0755 packaging/steps $(LIBDIR)/hearth-guest/steps
	install -D -m 0644 packaging/hearth-guest.8 $(SHARE)/man/man8/hearth-guest.8

# Debian's and RPM's packages in target/packages, of release builds.
packages:
	cargo build --locked --release --package hearth --features etcd
	$(MAKE) --no-print-directory guest
	@scripts/setup.sh packages
	@scripts/packages $(BINARY) $(AGENT)

demo:
	@scripts/setup.sh demo
	@scripts/demo/run

test:
	@scripts/setup.sh all
	@cargo xtask ci

# What `make test` leaves out, too: tests of real guests that differ in one thing from one that it runs, an example that is built.
test-all:
	@scripts/setup.sh all
	CI=true cargo nextest run --no-fail-fast --workspace --features world/mutants,hearth/etcd --locked

bench:
	@scripts/setup.sh all
	@benches/run

setup:
	@scripts/setup.sh all

# cargo-deny and mdbook too, which take some minutes to build.
setup-developer:
	@scripts/setup.sh all
	@scripts/setup.sh developer

# With the advisory database, which needs the network.
deny:
	cargo deny check

book:
	mdbook build book

# A longer run than the one in `make test`; needs cargo-fuzz (`cargo install cargo-fuzz`).
fuzz:
	@fuzz/run

# The package for notebooks, in a virtual environment of its own; needs a package index.
python:
	@python/run

clean-scratch:
	rm -rf scratch

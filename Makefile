# `make help` lists the targets: the words after ## are what it prints.
# A target stands here once it works, and not before.

SHELL := /bin/sh
.DEFAULT_GOAL := help

# The linter runs from its module, so there is nothing to install. .ci/run reads this line too.
LINTER := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0

# What the user gives is taken literally (value: make does not expand a $ in it) and reaches the
# recipe through the environment: a blank, a quote or a $( ) in a path stays part of the path.
override DIR      := $(value DIR)
override BUCKET   := $(value BUCKET)
override POLICY   := $(value POLICY)
override AS_OF    := $(value AS_OF)
override ENFORCE  := $(value ENFORCE)
override ENDPOINT := $(value ENDPOINT)
export DIR BUCKET POLICY AS_OF ENFORCE ENDPOINT

.PHONY: help run test lint golden bench conformance emulator map

help: ## print this list
	@awk 'BEGIN { FS = ":.*## " } /^[a-z][a-z-]*:.*## / { printf "  %-11s %s\n", $$1, $$2 } \
		/^##> / { printf "  %-11s %s\n", "", substr($$0, 5) }' $(firstword $(MAKEFILE_LIST))

# go run turns every failure into status 1, so the program is built first.
run: ## run the whole pipeline here, without AWS: DIR= POLICY= AS_OF= ENFORCE=1, each optional
##> BUCKET=name POLICY=file reads a real bucket with your AWS credentials and only reports
##> make answers 2 for every failure; .bin/local, run directly, answers 0, 1, 2 or 3
	@go build -o .bin/local ./internal/cmd/local && mkdir -p .bin/functions && CGO_ENABLED=0 go build -o .bin/functions/ ./functions/...
	@.bin/local $${DIR:+"-dir=$$DIR"} $${BUCKET:+"-bucket=$$BUCKET"} $${POLICY:+"-policy=$$POLICY"} $${AS_OF:+"-as-of=$$AS_OF"} \
		$${ENFORCE:+"-enforce=$$ENFORCE"}; \
	status=$$?; echo "exit status $$status"; exit $$status

# What up and drill start: the functions, and the operator's tool beside them.
.PHONY: functions up drill

functions:
	@mkdir -p .bin/functions && CGO_ENABLED=0 go build -o .bin/functions/ ./functions/... && go build -o .bin/local ./internal/cmd/local
	@go build -o .bin/expunge ./internal/cmd/expunge

up: functions ## keep a region running here in the state of a bad night, for .bin/expunge and the AWS CLI, until Ctrl-C
	@exec .bin/local -up

override DRILL := $(value DRILL)
export DRILL

drill: functions ## rehearse every trouble on the embedded AWS and print what became of it; DRILL=R116 plays one
	@.bin/local -drill $${DRILL:+"-only=$$DRILL"}

# The race detector needs cgo, which go turns off by itself where it finds no C compiler.
# The CDK's bindings would be compiled a second time for the race detector, for minutes, and find
# nothing: they are one process that asks another. infra-test runs what is left out here.
test: ## vet, then every test but the stack's with the race detector, in a new order each time
	@race=-race; \
	[ "$$(go env CGO_ENABLED)" = 1 ] || { race=; echo "no C compiler: the tests run without the race detector"; }; \
	set -x; go vet ./... && go test $$race -shuffle=on -count=1 ./functions/... ./internal/...

lint: ## run the linter with the settings of .golangci.yml
	go run $(LINTER) run

# Only a package that declares the flag knows it, and go test fails for the others.
golden: ## rewrite the golden files: review the diff before it goes into a commit
	@dirs=$$(find functions infra internal -name '*_test.go' -exec grep -l 'flag\.Bool("update"' {} + 2>/dev/null \
		| sed -e 's|/[^/]*$$||' -e 's|^|./|' | sort -u); \
	if [ -z "$$dirs" ]; then echo "no package has golden files"; exit 0; fi; \
	set -x; go test -short -count=1 $$dirs -args -update

# The region of the samples is test code, so the program that holds it is a test.
override EVENT := $(value EVENT)
export EVENT
.PHONY: invoke

invoke: ## hand an event to its handler, here, without AWS: EVENT=events/worker/page.json
	@[ -n "$$EVENT" ] || { echo "usage: make invoke EVENT=events/<step>/<case>.json"; exit 2; }
	@go test -c -o .bin/invoke ./internal/wiring
	@case "$$EVENT" in /*) event=$$EVENT ;; *) event=$$PWD/$$EVENT ;; esac; \
	cd internal/wiring && exec ../../.bin/invoke -test.run '^TestInvoke$$' -event "$$event"

bench: ## run the benchmarks, and no test
	go test -run '^$$' -bench . -benchmem ./...

conformance: ## check what we take for AWS's behaviour, at ENDPOINT=URL, or ENDPOINT=aws with your own credentials
	@[ -n "$$ENDPOINT" ] || { echo "ENDPOINT is missing: give aws, or a URL such as http://127.0.0.1:5000"; exit 2; }
	EXPUNGE_ENDPOINT="$$ENDPOINT" go test -v -count=1 -timeout 30m -run '^TestEndpoint$$' ./internal/emulator/conformance

# The CDK's command line comes from npm at one exact version, and needs Node 20 or newer. The variable
# holds the major versions whose end of life jsii need not announce at each run.
CDK := npx --yes aws-cdk@2.1148.1
export JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION := 20

override REGION  := $(value REGION)
override CONTEXT := $(value CONTEXT)
export REGION CONTEXT
SETTINGS = $${CONTEXT:+$$(printf -- ' -c %s' $$CONTEXT)}

# The machine that the functions are built for: ARCH=, or what CONTEXT or else cdk.json says.
ARCH ?= $(or $(patsubst architecture=%,%,$(filter architecture=%,$(CONTEXT))),$(shell sed -n 's/.*"architecture": "\(.*\)".*/\1/p' cdk.json))
# What makes a build the same everywhere; without the tag a function would link net/rpc, 6 MB of it.
LAMBDA := CGO_ENABLED=0 GOOS=linux GOARCH=$(ARCH:x86_64=amd64) go build -trimpath -buildvcs=false -ldflags='-s -w -buildid=' -tags=lambda.norpc

override SEEDS := $(value SEEDS)
override SEED  := $(value SEED)
override FIRST := $(value FIRST)
override DEPTH := $(value DEPTH)
override VIA   := $(value VIA)
export SEEDS SEED FIRST DEPTH VIA
.PHONY: sim

sim: ## play the real steps in simulated regions where everything goes wrong: SEEDS=20000 from FIRST=1, all sets of DEPTH=2 faults
##> SEED=k for one world's trace, with VIA=Adapters through the clients and the embedded AWS
	@go test -c -o .bin/sim ./internal/sim
	@cd internal/sim && if [ -n "$$SEED" ]; then exec ../../.bin/sim -test.v -test.run "^Test$${VIA:-Seeds}\$$" -seed "$$SEED"; fi; \
	exec ../../.bin/sim -test.v -seeds "$${SEEDS:-20000}" -first "$${FIRST:-1}" -depth "$${DEPTH:-2}" -positions 0 -adapters 500

.PHONY: package synth
# cdk.json names this target as its build step, so plain cdk commands run it too.
package: ## build the functions for Lambda, ARCH=arm64 or x86_64, and the CDK application
	@umask 022 && mkdir -p .build/bin && $(LAMBDA) -o .build/bin/ ./functions/...
	@for f in .build/bin/*; do mkdir -p .build/packages/$${f##*/} && mv -f "$$f" .build/packages/$${f##*/}/bootstrap; done
	@go build -buildvcs=false -ldflags='-s -w' -o .build/infra ./infra

.PHONY: context
# The CDK passes over a word that is no KEY=VALUE, and would go on with the default.
context:
	@for word in $$CONTEXT; do case $$word in [a-z]*=?*) ;; *) echo "CONTEXT: $$word is not KEY=VALUE; there are no blanks in either"; exit 2;; esac; done

synth: context ## write each region's CloudFormation template to cdk.out and check it; CONTEXT='KEY=VALUE ...' changes cdk.json's
	@rm -rf cdk.out && $(CDK) synth --quiet $(SETTINGS) && ls cdk.out/*.template.json

.PHONY: diff deploy destroy
diff: region context ## show what deploying REGION= would change, permissions first
	@$(CDK) diff $(SETTINGS) "Expunge-$$REGION"

deploy: region context ## deploy REGION=, after showing what changes in permissions
	@$(CDK) deploy $(SETTINGS) "Expunge-$$REGION"

# Only an update takes the protection away, and it deploys what this work tree says: it asks as deploy does
# where permissions change. Destroy asks again before it takes anything away.
destroy: region context ## take REGION='s stack away; its ledger, evidence and logs stay
	@$(CDK) deploy $(SETTINGS) -c termination_protection=false "Expunge-$$REGION" && \
	$(CDK) destroy $(SETTINGS) -c termination_protection=false "Expunge-$$REGION"

.PHONY: region
region:
	@[ -n "$$REGION" ] || { echo "REGION is missing: give one that cdk.json names, such as REGION=eu-central-1"; exit 2; }

# $(call tool,FOLDER,PACKAGE,VERSION) has a tool from Python's package index at one version, in a folder
# of its own. Where no index answers, the tests that need it say that they are skipped, and why.
tool = .$(1)/bin/python -c 'import importlib.metadata as m, sys; sys.exit(m.version("$(2)") != "$(3)")' 2>/dev/null || { \
	rm -rf .$(1); python3 -m venv .$(1) && .$(1)/bin/pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 "$(2)==$(3)"; } || \
	echo "NOTICE: $(2) $(3) can not be installed here (python3 with venv, and a package index)"
CFN_LINT := $(shell sed -n 's/^const cfnLint = "\(.*\)"$$/\1/p' infra/region/lint_test.go)

.PHONY: infra-test check
infra-test: ## test the stack: its templates, packs of rules, refusals, goldens; needs Node 20 or newer
	@$(call tool,cfn-lint,cfn-lint,$(CFN_LINT))
	go test -count=1 ./infra/...

# The golden files are written anew: a test that reads one may be content with less than all of it.
check: lint test infra-test ## what has to pass before a change: lint, test, infra-test, and golden files that are as they should be
	@was=$$(git status --porcelain; git diff | git hash-object --stdin); $(MAKE) --silent golden && \
	[ "$$was" = "$$(git status --porcelain; git diff | git hash-object --stdin)" ] || { git status --short; echo "the golden files are not what the code writes"; exit 1; }

.PHONY: e2e
# The emulator and all that it needs stand at exact versions in infra/e2e/requirements.txt.
e2e: ## deploy to an emulator that others wrote (ministack, from PyPI) with the CDK's command line, and play a bad night there
	@cmp -s infra/e2e/requirements.txt .e2e/venv/installed || { rm -rf .e2e/venv; python3 -m venv .e2e/venv && \
	.e2e/venv/bin/pip install --quiet --disable-pip-version-check --retries 1 --timeout 20 -r infra/e2e/requirements.txt && \
	cp infra/e2e/requirements.txt .e2e/venv/installed; } || { echo "SKIPPED: ministack can not be installed here (python3 with venv, and a package index)"; exit 0; }; \
	EXPUNGE_E2E=1 go test -count=1 -v -timeout 15m -run '^TestRegion$$' ./infra/e2e

emulator: ## serve the embedded AWS on 127.0.0.1:4566 for the AWS CLI and other programs, until Ctrl-C
	@go build -o .bin/emulator ./internal/cmd/emulator && exec .bin/emulator

map: ## print each package and the sentence it says of itself
	@go list -f '{{.ImportPath}} {{.Doc}}' ./...

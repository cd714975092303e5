# zklock as a volume, for PostgreSQL 18 or later from an image without it: in lib the
# library and ZooKeeper's client, in share the extensions.  Build it in the parent
# directory:
#
#	docker build --file docker/volume.Dockerfile --tag zklock-volume .

ARG POSTGRES=18-trixie

FROM postgres:${POSTGRES} AS build
RUN apt-get update \
 && apt-get install --yes --no-install-recommends \
	gcc \
	libc6-dev \
	libzookeeper-mt-dev \
	make \
	"postgresql-server-dev-$PG_MAJOR" \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /zklock
COPY Makefile zklock.control zklock_advisory.control ./
COPY sql sql
COPY src src
RUN make with_llvm=no volume VOLUME=/volume

FROM scratch
COPY --from=build /volume /

# Both programs in one image, as static binaries on nothing else but CA certificates:
#   docker build -t muster .            (or `make image-docker`)
# `make image` builds the same without an engine; a test in hack/image compares the two.
# Run muster-scheduler or muster-controller in it; manifests/deploy does.

# Any image with Go 1.26, make, bash and CA certificates in /etc/ssl/certs. Name it with its digest to build from the same image again.
ARG BUILD_IMAGE=golang:1.26-bookworm

FROM ${BUILD_IMAGE} AS build
# Set by the builder; empty means the machine's own.
ARG TARGETOS
ARG TARGETARCH
# The version that the programs report. The build has no git.
ARG VERSION=unknown
ARG COMMIT=unknown
WORKDIR /src
# The modules change less often than the code.
COPY go.mod go.sum ./
RUN go mod download
COPY Makefile ./
COPY hack/compile.sh hack/
COPY cmd/ cmd/
COPY manifests/ manifests/
COPY pkg/ pkg/
RUN make binaries VERSION="${VERSION}" COMMIT="${COMMIT}" STATIC=1 PROGRAMS="muster-scheduler muster-controller" \
    GOOS="${TARGETOS}" GOARCH="${TARGETARCH}"

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /src/bin/muster-scheduler /src/bin/muster-controller /usr/local/bin/
# An ordinary user, not root.
USER 65532:65532

"""Export of telemetry by OTLP over HTTP (https://opentelemetry.io/docs/specs/otlp/). Imported only when enabled."""

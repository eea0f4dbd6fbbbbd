# shellcheck shell=bash
# What volumes begin with, and the administrators' webhook.
up() {
	golden_up
	stop
	start socat TCP-LISTEN:8080,fork,reuseaddr,bind=10.99.0.1 'SYSTEM:printf "HTTP/1.1 200 OK\\r\\nContent-Length\: 0\\r\\nConnection\: close\\r\\n\\r\\n"; cat > /dev/null'
}
down() {
	stop
	golden_down
}

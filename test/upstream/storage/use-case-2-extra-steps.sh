# shellcheck shell=bash
# What volumes begin with, and the administrators' webhook.
up() {
	test/cluster/packages.sh socat
	golden_up
	stop
	printf 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n' > "$DIR/answer"
	start socat TCP-LISTEN:8080,fork,reuseaddr,bind=10.99.0.1 "SYSTEM:cat $DIR/answer; cat > /dev/null"
}
down() {
	stop
	golden_down
}

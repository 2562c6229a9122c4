// Command gopeer is a Go program at the other end: it says what Go's libraries decide, and speaks TLS as they do.
//
//	gopeer proxies
//	gopeer chains
//	gopeer certificates DIR
//	gopeer serve CERT KEY [CLIENT-CA] [MIN-VERSION] [MAX-VERSION]
//	gopeer get
//
// proxies and get read one JSON object a line and answer with one: through which proxy Go reaches a URL, and what Go's
// client makes of a server. chains prints certificate chains with Go's verdict on each, one JSON object a line. serve
// says where it listens and has one page, which tells about the connection.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/url"
	"os"

	"golang.org/x/net/http/httpproxy"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("usage: gopeer proxies | chains | certificates DIR | serve CERT KEY [CLIENT-CA] [MIN] [MAX] | get")
	}
	switch args[0] {
	case "proxies":
		return answerLines(proxyOf)
	case "chains":
		return chains()
	case "certificates":
		return certificates(args[1])
	case "serve":
		return serve(args[1:])
	case "get":
		return answerLines(get)
	default:
		return fmt.Errorf("no command %q", args[0])
	}
}

// answerLines answers each line of the standard input with one line.
func answerLines[Q, A any](answer func(Q) A) error {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 1<<20)
	out := json.NewEncoder(os.Stdout)
	for in.Scan() {
		var question Q
		if err := json.Unmarshal(in.Bytes(), &question); err != nil {
			return err
		}
		if err := out.Encode(answer(question)); err != nil {
			return err
		}
	}
	return in.Err()
}

// proxyQuestion is an environment and a URL.
type proxyQuestion struct {
	HTTP    string `json:"http"`
	HTTPS   string `json:"https"`
	NoProxy string `json:"no_proxy"`
	URL     string `json:"url"`
}

// proxyAnswer has an empty proxy for a URL that is reached directly.
type proxyAnswer struct {
	Proxy string `json:"proxy"`
	Error string `json:"error,omitempty"`
}

func proxyOf(q proxyQuestion) proxyAnswer {
	target, err := url.Parse(q.URL)
	if err != nil {
		return proxyAnswer{Error: err.Error()}
	}
	config := httpproxy.Config{HTTPProxy: q.HTTP, HTTPSProxy: q.HTTPS, NoProxy: q.NoProxy}
	proxy, err := config.ProxyFunc()(target)
	switch {
	case err != nil:
		return proxyAnswer{Error: err.Error()}
	case proxy == nil:
		return proxyAnswer{}
	default:
		return proxyAnswer{Proxy: proxy.String()}
	}
}

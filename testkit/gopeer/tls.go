package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// issued is a certificate with its key.
type issued struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// certificates writes what tests need into dir: two authorities, certificates of the first for a server and a client,
// one of the second for a client, and one that is its own authority and names a server.
func certificates(dir string) error {
	server := func(t *x509.Certificate) {
		t.DNSNames = []string{"metrics.example"}
		t.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
		t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	client := func(t *x509.Certificate) { t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }
	authority := func(t *x509.Certificate) {
		t.IsCA, t.BasicConstraintsValid = true, true
		t.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	}
	ca, err := issue(dir, "ca", nil, authority)
	if err != nil {
		return err
	}
	other, err := issue(dir, "other", nil, authority)
	if err != nil {
		return err
	}
	for _, wanted := range []struct {
		name   string
		by     *issued
		change func(*x509.Certificate)
	}{
		{"server", ca, server},
		{"client", ca, client},
		{"stranger", other, client},
		{"self", nil, func(t *x509.Certificate) { authority(t); server(t) }},
	} {
		if _, err := issue(dir, wanted.name, wanted.by, wanted.change); err != nil {
			return err
		}
	}
	return nil
}

// issue writes name.pem and name.key; without an issuer the certificate signs itself.
func issue(dir, name string, by *issued, change func(*x509.Certificate)) (*issued, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
	change(template)
	if by == nil {
		by = &issued{template, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, by.cert, &key.PublicKey, by.key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	for file, block := range map[string]*pem.Block{
		name + ".pem": {Type: "CERTIFICATE", Bytes: der},
		name + ".key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, err
		}
	}
	return &issued{cert, key}, nil
}

func versionOf(text string) (uint16, error) {
	if text == "" {
		return 0, nil
	}
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13} {
		if tls.VersionName(version) == "TLS "+text {
			return version, nil
		}
	}
	return 0, fmt.Errorf("no version %q of TLS", text)
}

func poolOf(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: no certificate", file)
	}
	return pool, nil
}

// serve answers every request over TLS with a page of one metric, whose labels tell about the connection.
func serve(args []string) error {
	args = append(args, "", "", "")
	cert, err := tls.LoadX509KeyPair(args[0], args[1])
	if err != nil {
		return err
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}}
	if args[2] != "" {
		config.ClientAuth = tls.RequireAndVerifyClientCert
		if config.ClientCAs, err = poolOf(args[2]); err != nil {
			return err
		}
	}
	if config.MinVersion, err = versionOf(args[3]); err != nil {
		return err
	}
	if config.MaxVersion, err = versionOf(args[4]); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "Listening on", listener.Addr())
	server := &http.Server{
		TLSConfig: config,
		ErrorLog:  log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			client := ""
			if peers := r.TLS.PeerCertificates; len(peers) > 0 {
				client = peers[0].Subject.CommonName
			}
			w.Header().Set("Content-Type", "text/plain; version=0.0.4")
			fmt.Fprintf(w, "connection{version=%s,server_name=%s,client=%s} 1\n",
				strconv.Quote(tls.VersionName(r.TLS.Version)), strconv.Quote(r.TLS.ServerName), strconv.Quote(client))
		}),
	}
	return server.ServeTLS(listener, "", "")
}

// getQuestion is a request, and as whom to make it.
type getQuestion struct {
	URL      string `json:"url"`
	CA       string `json:"ca"`
	Cert     string `json:"cert"`
	Key      string `json:"key"`
	Max      string `json:"max"`
	User     string `json:"user"`
	Password string `json:"password"`
}

type getAnswer struct {
	Status  int    `json:"status"`
	Proto   string `json:"proto"`
	Version string `json:"version"`
	Error   string `json:"error,omitempty"`
}

func get(q getQuestion) getAnswer {
	answer, err := tryGet(q)
	if err != nil {
		return getAnswer{Error: err.Error()}
	}
	return answer
}

func tryGet(q getQuestion) (getAnswer, error) {
	var none getAnswer
	pool, err := poolOf(q.CA)
	if err != nil {
		return none, err
	}
	config := &tls.Config{RootCAs: pool}
	if config.MaxVersion, err = versionOf(q.Max); err != nil {
		return none, err
	}
	if q.Cert != "" {
		cert, err := tls.LoadX509KeyPair(q.Cert, q.Key)
		if err != nil {
			return none, err
		}
		// Shown whatever authorities the server names: what becomes of it is the server's decision.
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
	}
	request, err := http.NewRequest(http.MethodGet, q.URL, nil)
	if err != nil {
		return none, err
	}
	if q.User != "" {
		request.SetBasicAuth(q.User, q.Password)
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(request)
	if err != nil {
		return none, err
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return none, err
	}
	return getAnswer{Status: response.StatusCode, Proto: response.Proto, Version: tls.VersionName(response.TLS.Version)}, nil
}

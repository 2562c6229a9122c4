package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"errors"
	"math/big"
	"net"
	"net/url"
	"os"
	"time"
)

// verdict is a chain as a server or a client shows it, and what Go makes of it.
type verdict struct {
	Name   string   `json:"name"`
	Host   string   `json:"host"`
	Client bool     `json:"client"`
	Roots  [][]byte `json:"roots"`
	Chain  [][]byte `json:"chain"`
	Now    int64    `json:"now"`
	OK     bool     `json:"ok"`
	Kind   string   `json:"kind"`
	Error  string   `json:"error,omitempty"`
}

// change is what a case does to a template.
type change func(*x509.Certificate)

// chainCase is a chain from the top; nil changes nothing. The leaf is for web.a.example, 10.1.2.3 and a mailbox.
type chainCase struct {
	name     string
	host     string
	root     change
	middle   []change
	leaf     change
	client   bool
	stranger bool // the root is not configured, another of the same name is
	trusted  int  // the certificate that is configured, counted from the top
	withhold bool // the intermediates are not shown

	signer change                                 // what the leaf's issuer says of itself when it signs, of its name or its key's identifier
	old    string                                 // the certificate without a version, as before 1996: "root", "middle" or "leaf"
	shows  func(line []*issued, v *verdict) error // what is shown or configured beside
}

// chains prints every case, made now, with Go's verdict.
func chains() error {
	out := json.NewEncoder(os.Stdout)
	for _, one := range chainCases() {
		made, err := one.make()
		if err != nil {
			return errors.Join(errors.New(one.name), err)
		}
		made.judge()
		if err := out.Encode(made); err != nil {
			return err
		}
	}
	return nil
}

func (c chainCase) make() (*verdict, error) {
	host := c.host
	if host == "" {
		host = "web.a.example"
	}
	v := &verdict{Name: c.name, Host: host, Client: c.client, Now: time.Now().Unix()}
	authority := func(name string, more change) change {
		return func(t *x509.Certificate) {
			t.Subject = pkix.Name{CommonName: name}
			t.IsCA, t.BasicConstraintsValid = true, true
			t.KeyUsage = x509.KeyUsageCertSign
			if more != nil {
				more(t)
			}
		}
	}
	made := func(which string, by *issued, more change) (*issued, error) {
		if c.old == which {
			return versionOne(which, by)
		}
		return signed(by, more)
	}
	root, err := made("root", nil, authority("root", c.root))
	if err != nil {
		return nil, err
	}
	line, last := []*issued{root}, root
	for i, more := range c.middle {
		if last, err = made("middle", last, authority("middle "+string(rune('a'+i)), more)); err != nil {
			return nil, err
		}
		line = append(line, last)
	}
	if c.signer != nil {
		as := *last.cert
		c.signer(&as)
		last = &issued{&as, last.key}
	}
	leaf, err := made("leaf", last, func(t *x509.Certificate) {
		t.Subject = pkix.Name{CommonName: "leaf"}
		t.DNSNames = []string{"web.a.example", "*.b.example"}
		t.IPAddresses = []net.IP{net.IPv4(10, 1, 2, 3).To4()}
		t.EmailAddresses = []string{"ops@a.example"}
		t.URIs = []*url.URL{{Scheme: "spiffe", Host: "a.example", Path: "/web"}}
		t.KeyUsage = x509.KeyUsageDigitalSignature
		if c.leaf != nil {
			c.leaf(t)
		}
	})
	if err != nil {
		return nil, err
	}
	line = append(line, leaf)
	v.Chain = [][]byte{leaf.cert.Raw}
	for i := len(line) - 2; i > 0 && !c.withhold; i-- {
		v.Chain = append(v.Chain, line[i].cert.Raw)
	}
	trusted := line[c.trusted]
	if c.stranger {
		if trusted, err = signed(nil, authority("root", nil)); err != nil {
			return nil, err
		}
	}
	v.Roots = [][]byte{trusted.cert.Raw}
	if c.shows != nil {
		err = c.shows(line, v)
	}
	return v, err
}

// versionOne makes a certificate of version 1, which has no extensions; x509 reads them and makes none.
func versionOne(name string, by *issued) (*issued, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	subject, err := asn1.Marshal(pkix.Name{CommonName: name}.ToRDNSequence())
	if err != nil {
		return nil, err
	}
	issuer, signer := subject, key
	if by != nil {
		issuer, signer = by.cert.RawSubject, by.key
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	algorithm := pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}} // ecdsa-with-SHA256
	type validity struct{ NotBefore, NotAfter time.Time }
	content, err := asn1.Marshal(struct {
		Serial    *big.Int
		Algorithm pkix.AlgorithmIdentifier
		Issuer    asn1.RawValue
		Validity  validity
		Subject   asn1.RawValue
		Key       asn1.RawValue
	}{
		big.NewInt(1), algorithm, asn1.RawValue{FullBytes: issuer},
		validity{time.Now().Add(-time.Hour).UTC(), time.Now().Add(24 * time.Hour).UTC()},
		asn1.RawValue{FullBytes: subject}, asn1.RawValue{FullBytes: public},
	})
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(content)
	signature, err := ecdsa.SignASN1(rand.Reader, signer, digest[:])
	if err != nil {
		return nil, err
	}
	der, err := asn1.Marshal(struct {
		Content   asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{asn1.RawValue{FullBytes: content}, algorithm, asn1.BitString{Bytes: signature, BitLength: 8 * len(signature)}})
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &issued{cert, key}, nil
}

// again shows the whole chain this many times more, with the root.
func again(times int) func([]*issued, *verdict) error {
	return func(line []*issued, v *verdict) error {
		for range times {
			for i := len(line) - 1; i >= 0; i-- {
				v.Chain = append(v.Chain, line[i].cert.Raw)
			}
		}
		return nil
	}
}

// namesakes shows others of the same name before the leaf's issuer, or configures them where the root signs. They may
// claim the identifier of its key, too; the identifier is what a verifier tries first.
func namesakes(count int, claim bool) func([]*issued, *verdict) error {
	return func(line []*issued, v *verdict) error {
		issuer := line[len(line)-2]
		var others [][]byte
		for range count {
			other, err := signed(line[0], func(t *x509.Certificate) {
				t.Subject = issuer.cert.Subject
				t.IsCA, t.BasicConstraintsValid = true, true
				t.KeyUsage = x509.KeyUsageCertSign
				if claim {
					t.SubjectKeyId = issuer.cert.SubjectKeyId
				}
			})
			if err != nil {
				return err
			}
			others = append(others, other.cert.Raw)
		}
		if len(line) == 2 {
			v.Roots = append(others, v.Roots...)
			return nil
		}
		shown := append([][]byte{v.Chain[0]}, others...)
		v.Chain = append(shown, v.Chain[1:]...)
		return nil
	}
}

// repeated shows one certificate that leads nowhere many times before the others.
func repeated(times int) func([]*issued, *verdict) error {
	return func(line []*issued, v *verdict) error {
		one := &verdict{Chain: [][]byte{nil}}
		if err := namesakes(1, true)(line, one); err != nil {
			return err
		}
		shown := [][]byte{v.Chain[0]}
		for range times {
			shown = append(shown, one.Chain[1])
		}
		v.Chain = append(shown, v.Chain[1:]...)
		return nil
	}
}

// named makes an issuer sign under another name.
func named(name string) change {
	return func(t *x509.Certificate) {
		t.RawSubject, t.Subject = nil, pkix.Name{CommonName: name}
	}
}

// inUTF8 makes an issuer sign under its own name, in another type of string.
func inUTF8(t *x509.Certificate) {
	value := asn1.RawValue{Tag: asn1.TagUTF8String, Bytes: []byte(t.Subject.CommonName)}
	name := pkix.RDNSequence{{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: value}}}
	t.RawSubject, _ = asn1.Marshal(name)
}

// keyID makes an issuer sign as if its key had this identifier.
func keyID(id ...byte) change {
	return func(t *x509.Certificate) { t.SubjectKeyId = id }
}

// signed makes a certificate; without an issuer it signs itself.
func signed(by *issued, more change) (*issued, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
		MaxPathLen:   -1,
	}
	more(template)
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
	return &issued{cert, key}, nil
}

// judge asks Go.
func (v *verdict) judge() {
	options := x509.VerifyOptions{
		Roots:         x509.NewCertPool(),
		Intermediates: x509.NewCertPool(),
		CurrentTime:   time.Unix(v.Now, 0),
		DNSName:       v.Host,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if v.Client {
		options.DNSName, options.KeyUsages = "", []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	}
	for _, der := range v.Roots {
		if cert, err := x509.ParseCertificate(der); err == nil {
			options.Roots.AddCert(cert)
		}
	}
	var leaf *x509.Certificate
	for i, der := range v.Chain {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			v.Kind, v.Error = "malformed", err.Error()
			return
		}
		if i == 0 {
			leaf = cert
		} else {
			options.Intermediates.AddCert(cert)
		}
	}
	_, err := leaf.Verify(options)
	v.OK, v.Kind = err == nil, kindOf(err)
	if err != nil {
		v.Error = err.Error()
	}
}

func kindOf(err error) string {
	var invalid x509.CertificateInvalidError
	var host x509.HostnameError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &host):
		return "host"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "time"
	case errors.As(err, &invalid) && invalid.Reason == x509.IncompatibleUsage:
		return "usage"
	case errors.As(err, &invalid) && invalid.Reason == x509.CANotAuthorizedForThisName:
		return "names"
	case errors.As(err, &x509.UnhandledCriticalExtension{}):
		return "critical"
	default:
		return "unknown"
	}
}

func usage(usages ...x509.ExtKeyUsage) change {
	return func(t *x509.Certificate) { t.ExtKeyUsage = usages }
}

func pathLength(most int) change {
	return func(t *x509.Certificate) { t.MaxPathLen, t.MaxPathLenZero = most, most == 0 }
}

func extension(critical bool, id ...int) change {
	return func(t *x509.Certificate) {
		value, _ := asn1.Marshal("x")
		t.ExtraExtensions = append(t.ExtraExtensions, pkix.Extension{Id: id, Critical: critical, Value: value})
	}
}

func names(more change) change {
	return func(t *x509.Certificate) {
		t.PermittedDNSDomainsCritical = true
		more(t)
	}
}

func networks(list ...string) []*net.IPNet {
	var out []*net.IPNet
	for _, one := range list {
		_, network, err := net.ParseCIDR(one)
		if err != nil {
			panic(err)
		}
		out = append(out, network)
	}
	return out
}

// chainCases is what the two implementations are compared on.
func chainCases() []chainCase {
	none := []change{nil}
	past := func(t *x509.Certificate) { t.NotAfter = time.Now().Add(-time.Minute) }
	future := func(t *x509.Certificate) { t.NotBefore = time.Now().Add(time.Minute) }
	noConstraints := func(t *x509.Certificate) { t.IsCA, t.BasicConstraintsValid = false, false }
	notAuthority := func(t *x509.Certificate) { t.IsCA = false }
	keyUsage := func(usage x509.KeyUsage) change {
		return func(t *x509.Certificate) { t.KeyUsage = usage }
	}
	serves := func(t *x509.Certificate) {
		t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	}
	mail, server, any := x509.ExtKeyUsageEmailProtection, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageAny
	client := x509.ExtKeyUsageClientAuth
	dns := func(permitted, excluded []string) change {
		return names(func(t *x509.Certificate) { t.PermittedDNSDomains, t.ExcludedDNSDomains = permitted, excluded })
	}
	ips := func(permitted, excluded []*net.IPNet) change {
		return names(func(t *x509.Certificate) { t.PermittedIPRanges, t.ExcludedIPRanges = permitted, excluded })
	}
	emails := func(permitted, excluded []string) change {
		return names(func(t *x509.Certificate) {
			t.PermittedEmailAddresses, t.ExcludedEmailAddresses = permitted, excluded
		})
	}
	uris := func(permitted, excluded []string) change {
		return names(func(t *x509.Certificate) { t.PermittedURIDomains, t.ExcludedURIDomains = permitted, excluded })
	}
	dnsOnly := func(list ...string) change {
		return func(t *x509.Certificate) {
			t.DNSNames, t.IPAddresses, t.EmailAddresses, t.URIs = list, nil, nil, nil
		}
	}
	return []chainCase{
		{name: "root and leaf"},
		{name: "one intermediate", middle: none},
		{name: "three intermediates", middle: []change{nil, nil, nil}},
		{name: "an intermediate that is not shown", middle: none, withhold: true},
		{name: "another root of the same name", stranger: true},
		{name: "another root of the same name above an intermediate", middle: none, stranger: true},
		{name: "an intermediate that is configured", middle: none, trusted: 1},
		{name: "a leaf that is configured", middle: none, trusted: 2},
		{name: "a configured leaf for clients", leaf: usage(client), trusted: 1},
		{name: "a configured leaf that is over", leaf: past, trusted: 1},

		{name: "everything shown twice", middle: []change{nil, nil}, shows: again(1)},
		{name: "everything shown two hundred times", middle: none, shows: again(200)},
		{name: "one that leads nowhere, shown two hundred times", middle: none, shows: repeated(200)},
		{name: "two hundred namesakes of the issuer", middle: none, shows: namesakes(200, false)},
		{name: "two hundred namesakes of the root", shows: namesakes(200, false)},
		{name: "as many namesakes as are tried", middle: none, shows: namesakes(98, true)},
		{name: "one namesake more than is tried", middle: none, shows: namesakes(99, true)},
		{name: "as many namesakes of the root as are tried", shows: namesakes(99, true)},
		{name: "one namesake of the root more than is tried", shows: namesakes(100, true)},
		{name: "an issuer without an identifier among namesakes", middle: none, signer: keyID(), shows: namesakes(99, false)},
		{name: "an issuer with another identifier", middle: none, signer: keyID(1, 2, 3)},
		{name: "an issuer with another identifier among namesakes", middle: none, signer: keyID(1, 2, 3),
			shows: namesakes(99, false)},

		{name: "root of version 1", old: "root"},
		{name: "root of version 1 above an intermediate", old: "root", middle: none},
		{name: "intermediate of version 1", old: "middle", middle: none},
		{name: "leaf of version 1", old: "leaf", host: "leaf"},
		{name: "client, leaf of version 1", old: "leaf", client: true},
		{name: "client, root of version 1", old: "root", client: true},

		{name: "the root under another name", signer: named("another")},
		{name: "the issuer under another name", middle: none, signer: named("another")},
		{name: "the issuer under the root's name", middle: none, signer: named("root")},
		{name: "the root's name in another type of string", signer: inUTF8},
		{name: "the issuer's name in another type of string", middle: none, signer: inUTF8},

		{name: "leaf over", leaf: past},
		{name: "leaf not yet", leaf: future},
		{name: "intermediate over", middle: []change{past}},
		{name: "intermediate not yet", middle: []change{future}},
		{name: "root over", root: past},

		{name: "leaf for servers", leaf: usage(server)},
		{name: "leaf for clients", leaf: usage(client)},
		{name: "leaf for anything", leaf: usage(any)},
		{name: "leaf for mail and servers", leaf: usage(mail, server)},
		{name: "leaf of an unknown usage", leaf: func(t *x509.Certificate) {
			t.UnknownExtKeyUsage = []asn1.ObjectIdentifier{{1, 2, 3}}
		}},
		{name: "intermediate for mail", middle: []change{usage(mail)}},
		{name: "intermediate for mail, leaf for servers", middle: []change{usage(mail)}, leaf: usage(server)},
		{name: "intermediate for mail above one for servers", middle: []change{usage(mail), usage(server)}},
		{name: "intermediate for servers", middle: []change{usage(server)}},
		{name: "intermediate for anything", middle: []change{usage(any)}, leaf: usage(server)},
		{name: "root for mail", root: usage(mail), middle: none},
		{name: "intermediate for mail, an authority serves", middle: []change{usage(mail)}, leaf: serves},
		{name: "client, leaf for clients", leaf: usage(client), client: true},
		{name: "client, leaf for servers", leaf: usage(server), client: true},
		{name: "client, intermediate for servers", middle: []change{usage(server)}, client: true},
		{name: "client, no usage", client: true},

		{name: "root allows none below", root: pathLength(0), middle: none},
		{name: "root allows none below and there is none", root: pathLength(0)},
		{name: "root allows one below", root: pathLength(1), middle: none},
		{name: "root allows one below, two are", root: pathLength(1), middle: []change{nil, nil}},
		{name: "intermediate allows none below", middle: []change{pathLength(0), nil}},
		{name: "intermediate allows none below, an authority serves", middle: []change{pathLength(0)}, leaf: serves},
		{name: "intermediate allows none below, one is above", middle: []change{nil, pathLength(0)}},

		{name: "intermediate without basic constraints", middle: []change{noConstraints}},
		{name: "intermediate that is no authority", middle: []change{notAuthority}},
		{name: "root without basic constraints", root: noConstraints},
		{name: "root that is no authority", root: notAuthority},
		{name: "intermediate may sign no certificates", middle: []change{keyUsage(x509.KeyUsageDigitalSignature)}},
		{name: "intermediate may sign lists", middle: []change{keyUsage(x509.KeyUsageCRLSign)}},
		{name: "intermediate may only decipher", middle: []change{keyUsage(x509.KeyUsageDecipherOnly)}},
		{name: "intermediate without key usage", middle: []change{keyUsage(0)}},
		{name: "root may sign no certificates", root: keyUsage(x509.KeyUsageDigitalSignature)},
		{name: "a leaf signs", middle: []change{func(t *x509.Certificate) {
			notAuthority(t)
			t.KeyUsage = x509.KeyUsageDigitalSignature
		}}},
		{name: "an authority serves", leaf: serves},
		{name: "an authority below an intermediate serves", middle: none, leaf: serves},

		{name: "leaf with an unknown critical extension", leaf: extension(true, 1, 2, 3)},
		{name: "leaf with an unknown extension", leaf: extension(false, 1, 2, 3)},
		{name: "intermediate with an unknown critical extension", middle: []change{extension(true, 1, 2, 3)}},
		{name: "intermediate with an unknown critical extension, an authority serves",
			middle: []change{extension(true, 1, 2, 3)}, leaf: serves},
		{name: "root with an unknown critical extension", root: extension(true, 1, 2, 3)},
		{name: "a configured leaf with an unknown critical extension", leaf: extension(true, 1, 2, 3), trusted: 1},

		{name: "permitted domain", root: dns([]string{"a.example", "b.example"}, nil)},
		{name: "permitted domain in capitals", root: dns([]string{"A.EXAMPLE", "B.example"}, nil)},
		{name: "one name of two is permitted", root: dns([]string{"a.example"}, nil)},
		{name: "permitted below a dot", root: dns([]string{".a.example", ".b.example"}, nil)},
		{name: "a dot and the domain itself", root: dns([]string{".a.example"}, nil), leaf: dnsOnly("a.example"), host: "a.example"},
		{name: "the end of a label", root: dns([]string{"b.a.example"}, nil), leaf: dnsOnly("web.a.example")},
		{name: "a suffix that is no domain", root: dns([]string{"xample"}, nil), leaf: dnsOnly("web.a.example")},
		{name: "everything permitted", root: dns([]string{""}, nil)},
		{name: "everything excluded", root: dns(nil, []string{""})},
		{name: "excluded domain", root: dns(nil, []string{"a.example"})},
		{name: "another domain excluded", root: dns(nil, []string{"c.example"})},
		{name: "excluded below a wildcard", root: dns(nil, []string{"x.b.example"})},
		{name: "permitted and excluded within", root: dns([]string{"example"}, []string{"web.a.example"})},
		{name: "two constraints that agree", root: dns([]string{"example"}, nil),
			middle: []change{dns([]string{"a.example", "b.example"}, nil)}},
		{name: "two constraints that do not", root: dns([]string{"c.example"}, nil),
			middle: []change{dns([]string{"a.example", "b.example"}, nil)}},
		{name: "a constraint on the leaf itself", leaf: func(t *x509.Certificate) { serves(t); dns([]string{"c.example"}, nil)(t) }},
		{name: "names of an intermediate", root: dns([]string{"a.example"}, nil), leaf: dnsOnly("web.a.example"),
			middle: []change{func(t *x509.Certificate) { t.DNSNames = []string{"c.example"} }}},
		{name: "a constrained root, a client", root: dns([]string{"c.example"}, nil), client: true},
		{name: "permitted network", root: ips(networks("10.0.0.0/8"), nil)},
		{name: "another network", root: ips(networks("10.2.0.0/16"), nil)},
		{name: "networks of the other kind", root: ips(networks("fd00::/8"), nil)},
		{name: "excluded network", root: ips(nil, networks("10.1.0.0/16"))},
		{name: "all networks excluded", root: ips(nil, networks("0.0.0.0/0", "::/0"))},
		{name: "permitted mailbox", root: emails([]string{"ops@a.example"}, nil)},
		{name: "another mailbox", root: emails([]string{"dev@a.example"}, nil)},
		{name: "permitted mail domain", root: emails([]string{"a.example"}, nil)},
		{name: "excluded mail domain", root: emails(nil, []string{"a.example"})},
		{name: "permitted host of a URI", root: uris([]string{"a.example"}, nil)},
		{name: "another host of a URI", root: uris([]string{"b.example"}, nil)},
		{name: "excluded host of a URI", root: uris(nil, []string{"a.example"})},

		{name: "by a wildcard", host: "x.b.example"},
		{name: "two labels for a wildcard", host: "x.y.b.example"},
		{name: "the domain of a wildcard", host: "b.example"},
		{name: "another name", host: "c.example"},
		{name: "in capitals", host: "WEB.a.example"},
		{name: "with a dot at the end", host: "web.a.example."},
		{name: "by address", host: "10.1.2.3"},
		{name: "by the same address written long", host: "::ffff:10.1.2.3"},
		{name: "another address", host: "10.1.2.4"},
		{name: "a bare wildcard", leaf: dnsOnly("*"), host: "a"},
		{name: "a wildcard inside", leaf: dnsOnly("a.*.example"), host: "a.b.example"},
		{name: "half a wildcard", leaf: dnsOnly("w*.example"), host: "web.example"},
		{name: "an underscore", leaf: dnsOnly("my_host"), host: "my_host"},
		{name: "no names", leaf: dnsOnly(), host: "leaf"},
	}
}

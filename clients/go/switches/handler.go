// Switches over HTTP.
//
// Invariant: nothing changes without the authorisation hook's consent, and a body is taken as a whole or not at all.

package switches

import (
	"errors"
	"fmt"
	"io"
	"net/http"
)

// maxBody is how large a request may be, in bytes.
const maxBody = 64 << 10

// Handler serves the switches:
//
//	GET                    the states, as rules
//	PUT, POST              rules in the body override file and environment
//	DELETE ?metric=name    forgets overrides; the name may be a pattern
//
// authorize is asked before every request, GET included, and refuses it by an error (answered with 403 and the error's
// text). A nil authorize allows GET alone.
func (s *Set) Handler(authorize func(*http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reads := r.Method == http.MethodGet || r.Method == http.MethodHead
		switch {
		case authorize == nil && !reads:
			http.Error(w, "switches are read-only here", http.StatusForbidden)
			return
		case authorize != nil:
			if err := authorize(r); err != nil {
				http.Error(w, err.Error(), http.StatusForbidden)
				return
			}
		}
		if status, err := s.change(w, r); err != nil {
			http.Error(w, err.Error(), status)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		for _, rule := range s.States() {
			fmt.Fprintln(w, rule)
		}
	})
}

// change does what the request asks for.
func (s *Set) change(w http.ResponseWriter, r *http.Request) (status int, err error) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPut, http.MethodPost:
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			return http.StatusRequestEntityTooLarge, err
		}
		rules, err := ParseRules(string(body))
		if err != nil {
			return http.StatusBadRequest, err
		}
		s.Override(rules...)
	case http.MethodDelete:
		pattern := r.URL.Query().Get("metric")
		if pattern == "" {
			return http.StatusBadRequest, errors.New("the parameter metric is missing")
		}
		s.ClearOverride(pattern)
	default:
		w.Header().Set("Allow", "GET, HEAD, PUT, POST, DELETE")
		return http.StatusMethodNotAllowed, errors.New("method not allowed")
	}
	return 0, nil
}

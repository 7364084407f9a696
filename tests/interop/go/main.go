// SPDX-License-Identifier: Apache-2.0
// Copyright The librmq Authors

// The Go side of the interop suite: "gopeer produce key=value..." and "gopeer consume key=value...". Words and contents
// are those of the Java peer (see Content.java), so each may read what the other has sent. With live=1 a consumer prints
// each message as it comes, and ends with SIGTERM, too.
package main

import (
	"bufio"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/signal"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const window = 200

type arguments map[string]string

func (a arguments) get(key, otherwise string) string {
	if value, found := a[key]; found {
		return value
	}
	return otherwise
}

func (a arguments) number(key string, otherwise int) int {
	if value, found := a[key]; found {
		number, err := strconv.Atoi(value)
		if err != nil {
			die("%s is not a number: %s", key, value)
		}
		return number
	}
	return otherwise
}

func die(format string, values ...interface{}) {
	fmt.Printf("error "+format+"\n", values...)
	os.Exit(1)
}

func sizeOf(a arguments, i int) (int, int) {
	sizes := strings.Split(a.get("sizes", a.get("size", "200")), ",")
	size, err := strconv.Atoi(sizes[i%len(sizes)])
	if err != nil {
		die("bad size: %v", err)
	}
	return size, i / len(sizes)
}

func body(a arguments, i int) []byte {
	size, round := sizeOf(a, i)
	seed, kind := a.get("seed", "s"), a.get("kind", "text")
	out := make([]byte, 0, size+sha256.Size)
	if kind == "random" || kind == "mixed" && round%2 == 1 {
		for block := 0; len(out) < size; block++ {
			part := sha256.Sum256([]byte(fmt.Sprintf("%s:%d:%d", seed, i, block)))
			out = append(out, part[:]...)
		}
		return out[:size]
	}
	out = append(out, fmt.Sprintf("%s:%d:", seed, i)...)
	for j := 0; len(out) < size; j++ {
		out = append(out, byte('a'+(i+j)%26))
	}
	return out[:size]
}

func message(a arguments, i int) *primitive.Message {
	tags := strings.Split(a.get("tags", "Tag0,Tag1,Tag2,Tag3,Tag4"), ",")
	m := primitive.NewMessage(a["topic"], body(a, i))
	m.WithTag(tags[i%len(tags)])
	m.WithKeys([]string{fmt.Sprintf("key-%s-%d", a.get("seed", "s"), i)})
	m.WithProperty("idx", strconv.Itoa(i))
	m.WithProperty("p-uni", fmt.Sprintf("\u00fcn\u00ef-%d", i))
	return m
}

func sendAll(a arguments, p rocketmq.Producer) (int, int, string) {
	var mutex sync.Mutex
	acked, failed, firstError := 0, 0, ""
	slots := make(chan struct{}, window)
	note := func(result *primitive.SendResult, err error) {
		mutex.Lock()
		defer mutex.Unlock()
		if err == nil && result.Status == primitive.SendOK {
			acked++
			return
		}
		failed++
		if firstError == "" {
			firstError = fmt.Sprint(err)
		}
	}
	from := a.number("from", 0)
	for i := from; i < from+a.number("count", 1); i++ {
		if a.get("mode", "sync") == "sync" {
			note(p.SendSync(context.Background(), message(a, i)))
			continue
		}
		slots <- struct{}{}
		err := p.SendAsync(context.Background(), func(_ context.Context, r *primitive.SendResult, err error) {
			note(r, err)
			<-slots
		}, message(a, i))
		if err != nil {
			note(nil, err)
			<-slots
		}
	}
	for i := 0; i < window; i++ {
		slots <- struct{}{}
	}
	return acked, failed, firstError
}

func produce(a arguments) {
	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver(strings.Split(a["ns"], ";"))),
		producer.WithGroupName(a.get("group", "GoProducer")), producer.WithRetry(2), producer.WithSendMsgTimeout(30*time.Second))
	if err != nil {
		die("%v", err)
	}
	if err = p.Start(); err != nil {
		die("%v", err)
	}
	acked, failed, firstError := sendAll(a, p)
	if err = p.Shutdown(); err != nil {
		die("shutdown: %v", err)
	}
	fmt.Printf("acked=%d\nfailed=%d\n", acked, failed)
	if failed > 0 {
		die("%s", firstError)
	}
	fmt.Println("ok")
}

type collector struct {
	mutex sync.Mutex
	lines map[int]string
	total int
	want  int
	done  chan struct{}
	live  bool
}

func (c *collector) take(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, m := range messages {
		c.total++
		if c.live {
			fmt.Printf("{\"queueId\":%d,\"queueOffset\":%d,\"properties\":{\"idx\":\"%s\"}}\n",
				m.Queue.QueueId, m.QueueOffset, m.GetProperty("idx"))
		}
		index, err := strconv.Atoi(m.GetProperty("idx"))
		if err != nil {
			index = -c.total
		}
		sum := sha1.Sum(m.Body)
		c.lines[index] = fmt.Sprintf("%s\t%s\t%s\t%s\t%s", m.GetProperty("idx"), hex.EncodeToString(sum[:]),
			m.GetTags(), m.GetKeys(), m.GetProperty("p-uni"))
		if len(c.lines) == c.want {
			close(c.done)
			c.want = -1
		}
	}
	return consumer.ConsumeSuccess, nil
}

func (c *collector) report(path string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	file, err := os.Create(path)
	if err != nil {
		die("%v", err)
	}
	out := bufio.NewWriter(file)
	indexes := make([]int, 0, len(c.lines))
	for index := range c.lines {
		indexes = append(indexes, index)
	}
	sort.Ints(indexes)
	for _, index := range indexes {
		fmt.Fprintln(out, c.lines[index])
	}
	if err = out.Flush(); err != nil {
		die("%v", err)
	}
}

func consume(a arguments) {
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver(strings.Split(a["ns"], ";"))),
		consumer.WithGroupName(a["group"]), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset))
	if err != nil {
		die("%v", err)
	}
	got := &collector{lines: map[int]string{}, want: a.number("count", 1), done: make(chan struct{}),
		live: a.number("live", 0) > 0}
	selector := consumer.MessageSelector{Type: consumer.TAG, Expression: strings.ReplaceAll(a.get("expr", "*"), "||", " || ")}
	if err = c.Subscribe(a["topic"], selector, got.take); err != nil {
		die("%v", err)
	}
	if err = c.Start(); err != nil {
		die("%v", err)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	select {
	case <-got.done:
	case <-stop:
	case <-time.After(time.Duration(a.number("timeout", 60)) * time.Second):
	}
	if err = c.Shutdown(); err != nil {
		die("shutdown: %v", err)
	}
	if a["report"] != "" {
		got.report(a["report"])
	}
	fmt.Printf("distinct=%d\nduplicates=%d\nok\n", len(got.lines), got.total-len(got.lines))
}

func main() {
	rlog.SetLogLevel("error")
	a := arguments{}
	for _, word := range os.Args[2:] {
		cut := strings.IndexByte(word, '=')
		if cut <= 0 {
			die("not key=value: %s", word)
		}
		a[word[:cut]] = word[cut+1:]
	}
	switch os.Args[1] {
	case "produce":
		produce(a)
	case "consume":
		consume(a)
	default:
		die("no command %s", os.Args[1])
	}
}

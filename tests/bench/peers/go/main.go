// SPDX-License-Identifier: Apache-2.0
// Copyright The librmq Authors

// The Go client under the same load as "rmq bench", for "make bench": same options, same JSON line.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

type options struct {
	namesrv, topic, group, mode                    string
	count, warmup, size, batch                     int
	threads, window, deadline                      int
}

type report struct {
	Peer   string  `json:"peer"`
	What   string  `json:"what"`
	Count  int     `json:"count"`
	Size   int     `json:"size"`
	WallS  float64 `json:"wall_s"`
	PerS   float64 `json:"msgs_per_s"`
	CPU    float64 `json:"cpu_us_per_msg"`
	MaxRSS int64   `json:"max_rss_kb"`
	Errors int64   `json:"errors"`
	P50    int64   `json:"p50_us"`
	P99    int64   `json:"p99_us"`
	P999   int64   `json:"p999_us"`
}

func die(format string, values ...interface{}) {
	fmt.Fprintf(os.Stderr, "gobench: "+format+"\n", values...)
	os.Exit(1)
}

func usage() (cpu time.Duration, maxRSS int64) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		die("getrusage: %v", err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), u.Maxrss
}

// Moment is where a measurement starts: after the warm-up.
type moment struct {
	wall time.Time
	cpu  time.Duration
}

func now() moment {
	cpu, _ := usage()
	return moment{time.Now(), cpu}
}

func (from moment) print(o options, what string, errors int64, micros []int64) {
	wall := time.Since(from.wall)
	cpu, rss := usage()
	sort.Slice(micros, func(i, j int) bool { return micros[i] < micros[j] })
	at := func(q float64) int64 {
		if len(micros) == 0 {
			return 0
		}
		return micros[int(q*float64(len(micros)-1))]
	}
	line, err := json.Marshal(report{"go", what, o.count, o.size, wall.Seconds(), float64(o.count) / wall.Seconds(),
		float64((cpu - from.cpu).Nanoseconds()) / 1000 / float64(o.count), rss, errors, at(0.5), at(0.99), at(0.999)})
	if err != nil {
		die("%v", err)
	}
	fmt.Println(string(line))
	if errors > 0 {
		os.Exit(1)
	}
}

type bench struct {
	options
	producer rocketmq.Producer
	errors   int64
}

func (b *bench) message() *primitive.Message {
	return primitive.NewMessage(b.topic, make([]byte, b.size))
}

// What one send takes: a message, or a batch.
func (b *bench) messages() []*primitive.Message {
	list := make([]*primitive.Message, b.batch)
	for i := range list {
		list[i] = b.message()
	}
	return list
}

func (b *bench) sync(count int) []int64 {
	count /= b.batch
	micros := make([]int64, count)
	var next int64 = -1
	var running sync.WaitGroup
	for t := 0; t < b.threads; t++ {
		running.Add(1)
		go func() {
			defer running.Done()
			for i := atomic.AddInt64(&next, 1); i < int64(count); i = atomic.AddInt64(&next, 1) {
				begin := time.Now()
				if _, err := b.producer.SendSync(context.Background(), b.messages()...); err != nil {
					atomic.AddInt64(&b.errors, 1)
				}
				micros[i] = time.Since(begin).Microseconds()
			}
		}()
	}
	running.Wait()
	return micros
}

func (b *bench) async(count int) []int64 {
	micros := make([]int64, count)
	slots := make(chan struct{}, b.window)
	for i := 0; i < count; i++ {
		slots <- struct{}{}
		at, begin := i, time.Now()
		err := b.producer.SendAsync(context.Background(), func(_ context.Context, _ *primitive.SendResult, err error) {
			if err != nil {
				atomic.AddInt64(&b.errors, 1)
			}
			micros[at] = time.Since(begin).Microseconds()
			<-slots
		}, b.message())
		if err != nil {
			atomic.AddInt64(&b.errors, 1)
			<-slots
		}
	}
	for i := 0; i < b.window; i++ {
		slots <- struct{}{}
	}
	return micros
}

func (b *bench) oneway(count int) []int64 {
	micros := make([]int64, count)
	for i := range micros {
		begin := time.Now()
		if err := b.producer.SendOneWay(context.Background(), b.message()); err != nil {
			b.errors++
		}
		micros[i] = time.Since(begin).Microseconds()
	}
	return micros
}

func produce(o options) {
	p, err := rocketmq.NewProducer(
		producer.WithNsResolver(primitive.NewPassthroughResolver(strings.Split(o.namesrv, ";"))),
		producer.WithGroupName(o.group), producer.WithCompressMsgBodyOverHowmuch(math.MaxInt32))
	if err != nil {
		die("%v", err)
	}
	if err = p.Start(); err != nil {
		die("%v", err)
	}
	b := &bench{options: o, producer: p}
	send, known := map[string]func(int) []int64{"sync": b.sync, "async": b.async, "oneway": b.oneway}[o.mode]
	if !known {
		die("no mode %s", o.mode)
	}
	send(o.warmup)
	b.errors = 0
	from := now()
	micros := send(o.count)
	from.print(o, "produce-"+o.mode, b.errors, micros)
	_ = p.Shutdown()
}

func consume(o options) {
	c, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver(strings.Split(o.namesrv, ";"))),
		consumer.WithGroupName(o.group), consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithConsumeGoroutineNums(o.threads))
	if err != nil {
		die("%v", err)
	}
	var got int64
	var from moment
	done := make(chan struct{})
	take := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		before := atomic.AddInt64(&got, int64(len(messages))) - int64(len(messages))
		after := before + int64(len(messages))
		if start := int64(o.warmup); before <= start && start < after {
			from = now()
		}
		if end := int64(o.warmup + o.count); before < end && end <= after {
			close(done)
		}
		return consumer.ConsumeSuccess, nil
	}
	if err = c.Subscribe(o.topic, consumer.MessageSelector{Type: consumer.TAG, Expression: "*"}, take); err != nil {
		die("%v", err)
	}
	if err = c.Start(); err != nil {
		die("%v", err)
	}
	select {
	case <-done:
		from.print(o, "consume", 0, nil)
	case <-time.After(time.Duration(o.deadline) * time.Second):
		die("received %d of %d in %d s", atomic.LoadInt64(&got), o.warmup+o.count, o.deadline)
	}
	_ = c.Shutdown()
}

func main() {
	rlog.SetLogLevel("error")
	var o options
	flags := flag.NewFlagSet("gobench", flag.ExitOnError)
	flags.StringVar(&o.namesrv, "n", "127.0.0.1:9876", "name servers, separated by semicolons")
	flags.StringVar(&o.topic, "t", "", "topic")
	flags.StringVar(&o.group, "g", fmt.Sprintf("gobench-%d", os.Getpid()), "group")
	flags.StringVar(&o.mode, "mode", "sync", "sync, async or oneway")
	flags.IntVar(&o.count, "count", 100000, "messages that are measured")
	flags.IntVar(&o.warmup, "warmup", 20000, "messages before that")
	flags.IntVar(&o.size, "size", 1024, "bytes of a body")
	flags.IntVar(&o.batch, "batch", 1, "messages of one send, sync")
	flags.IntVar(&o.threads, "threads", 16, "goroutines that send or receive")
	flags.IntVar(&o.window, "window", 1000, "sends on the way, async")
	flags.IntVar(&o.deadline, "timeout", 120, "seconds to wait for messages, consume")
	flags.String("o", "json", "output; only json")
	if len(os.Args) < 2 {
		die("say produce or consume")
	}
	_ = flags.Parse(os.Args[2:])
	switch os.Args[1] {
	case "produce":
		produce(o)
	case "consume":
		consume(o)
	default:
		die("say produce or consume")
	}
}

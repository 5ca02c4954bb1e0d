// SPDX-License-Identifier: Apache-2.0

// The peer of bench/watch: what a Go operator does to know its Pods, with client-go's shared
// informer, and the load both are measured under.
//
//	informer watch KUBECONFIG SELECTOR        prints "synced SECONDS" and keeps its cache
//	informer load KUBECONFIG TOTAL LABELLED   creates bare Pods
//	informer touch KUBECONFIG SELECTOR N      changes an annotation of N of them, one each
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	namespace = "bench"
	label     = "bench.example/cluster"
	writers   = 16
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 4 {
		log.Fatal("usage: informer watch|load|touch KUBECONFIG ...")
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Args[2])
	if err != nil {
		log.Fatal(err)
	}
	config.QPS, config.Burst = -1, -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		log.Fatal(err)
	}
	switch os.Args[1] {
	case "watch":
		watch(client, os.Args[3])
	case "load":
		load(client, number(3), number(4))
	case "touch":
		touch(client, os.Args[3], number(4))
	}
}

func number(arg int) int {
	n, err := strconv.Atoi(os.Args[arg])
	if err != nil {
		log.Fatal(err)
	}
	return n
}

func watch(client kubernetes.Interface, selector string) {
	began := time.Now()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }))
	informer := factory.Core().V1().Pods().Informer()
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		log.Fatal("not synced")
	}
	fmt.Printf("synced %.3f %d\n", time.Since(began).Seconds(), len(informer.GetStore().ListKeys()))
	<-ctx.Done()
}

// parallel runs fn for 0 … n-1 on several goroutines and ends the program at the first failure.
func parallel(n int, fn func(i int) error) {
	var group sync.WaitGroup
	work := make(chan int)
	for range writers {
		group.Add(1)
		go func() {
			defer group.Done()
			for i := range work {
				if err := fn(i); err != nil {
					log.Fatal(err)
				}
			}
		}()
	}
	for i := range n {
		work <- i
	}
	close(work)
	group.Wait()
}

func load(client kubernetes.Interface, total, labelled int) {
	ctx := context.Background()
	pods := client.CoreV1().Pods(namespace)
	parallel(total, func(i int) error {
		labels := map[string]string{"app": "etcd", "bench.example/other": "yes"}
		if i%(total/labelled) == 0 {
			labels[label] = fmt.Sprintf("cluster-%d", i/(3*total/labelled))
		}
		off := false
		_, err := pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("member-%06d", i), Labels: labels},
			Spec: corev1.PodSpec{
				AutomountServiceAccountToken: &off,
				Containers: []corev1.Container{{
					Name: "etcd", Image: "quay.io/coreos/etcd:v3.6.11",
					Command: []string{"etcd", "--name=$(NAME)", "--data-dir=/var/lib/etcd"},
					Env:     []corev1.EnvVar{{Name: "NAME", Value: "member"}},
					Ports:   []corev1.ContainerPort{{Name: "client", ContainerPort: 2379}},
				}},
			},
		}, metav1.CreateOptions{})
		return err
	})
}

func touch(client kubernetes.Interface, selector string, n int) {
	ctx := context.Background()
	pods := client.CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
	if err != nil {
		log.Fatal(err)
	}
	parallel(n, func(i int) error {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"bench.example/touched":"%d"}}}`, i)
		_, err := pods.Patch(ctx, list.Items[i%len(list.Items)].Name, types.MergePatchType,
			[]byte(patch), metav1.PatchOptions{})
		return err
	})
}
